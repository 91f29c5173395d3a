"""A workflow on Agent Framework that waits for a person, over restarts. Run it twice.

python examples/agent_framework_agent.py

The first run asks, and ends. The second one, another process, finds what waits, approves it and
goes on from the checkpoint.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from agent_framework import (
    Executor,
    Workflow,
    WorkflowBuilder,
    WorkflowContext,
    handler,
    response_handler,
)

import foldlog
from foldlog.integrations.agent_framework import FoldlogCheckpointStorage


@dataclass
class Refund:
    """What a person is asked."""

    order: int


class Desk(Executor):
    """Pays back what is approved."""

    @handler
    async def begin(self, order: int, ctx: WorkflowContext) -> None:
        """Ask a person."""
        await ctx.request_info(Refund(order), bool)

    @response_handler
    async def decided(self, refund: Refund, yes: bool, ctx: WorkflowContext[Any, str]) -> None:
        """Say what was decided."""
        await ctx.yield_output(f"order {refund.order}: {'paid back' if yes else 'refused'}")


def refunds(storage: FoldlogCheckpointStorage) -> Workflow:
    """Make the workflow, as every process does."""
    desk = Desk(id="desk")
    return WorkflowBuilder(name="refunds", start_executor=desk, checkpoint_storage=storage).build()


async def main() -> None:
    """Go on with what waits; begin, if nothing does."""
    async with foldlog.connect(pause_ttl=24 * 3600) as store:
        storage = FoldlogCheckpointStorage("customer-ann", store, types=[Refund])
        waiting = await store.waiting(session_id=storage.session_id)
        latest = await storage.get_latest(workflow_name="refunds")
        if not waiting or latest is None:
            await refunds(storage).run(7)
            print("waiting for approval; run it again")
            return
        request = waiting[0].asked["payload"]["request_id"]
        ran = await refunds(storage).run(
            checkpoint_id=latest.checkpoint_id, responses={request: True}
        )
        print(ran.get_outputs()[0])


if __name__ == "__main__":
    asyncio.run(main())
