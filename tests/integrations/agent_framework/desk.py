"""An agent and a workflow without a model service: they count, and pay back what is approved."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Executor,
    Message,
    Workflow,
    WorkflowBuilder,
    WorkflowContext,
    handler,
    response_handler,
)

REFUNDS = "refunds"


class Counting(BaseChatClient):
    """Says how often a user has spoken."""

    def _inner_get_response(
        self, *, messages: Any, stream: bool = False, options: Any = None, **_: Any
    ) -> Awaitable[ChatResponse]:
        async def answer() -> ChatResponse:
            heard = sum(each.role == "user" for each in messages)
            return ChatResponse(messages=[Message("assistant", [f"{heard} heard"])])

        return answer()


def make_agent(provider: Any) -> Agent:
    return Agent(Counting(), name="desk", context_providers=[provider])


@dataclass
class Refund:
    order: int


class Desk(Executor):
    """Asks whether to pay an order back."""

    @handler
    async def begin(self, order: int, ctx: WorkflowContext) -> None:
        await ctx.request_info(Refund(order), bool)

    @response_handler
    async def decided(self, refund: Refund, yes: bool, ctx: WorkflowContext[Any, str]) -> None:
        await ctx.yield_output(f"{refund.order} {'paid back' if yes else 'refused'}")


def make_workflow(storage: Any) -> Workflow:
    desk = Desk(id="desk")
    return WorkflowBuilder(name=REFUNDS, start_executor=desk, checkpoint_storage=storage).build()
