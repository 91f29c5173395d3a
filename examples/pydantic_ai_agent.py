"""An agent on Pydantic AI that asks before it books, over restarts. Run it twice.

    python examples/pydantic_ai_agent.py

The first run stops at the tool that needs approval, and ends. The second one, another process,
finds what waits, approves it and finishes. Its model is a script; yours is a real one.
"""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import foldlog
from foldlog.integrations.pydantic_ai import FoldlogConversationStore


def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """The scripted model: it books, and then says so."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse([TextPart(f"It is {last.content}.")])
    return ModelResponse([ToolCallPart("book", {"train": "the night train"})])


agent = Agent(FunctionModel(respond), output_type=[str, DeferredToolRequests])


@agent.tool_plain(requires_approval=True)
def book(train: str) -> str:
    """Book a train."""
    return f"booked: {train}"


async def main() -> None:
    """Begin, or go on with what waits."""
    async with foldlog.connect(path="./data") as store:
        conversations = FoldlogConversationStore(store)
        waiting = await store.waiting()
        if not waiting:
            conversation = Conversation(conversation_id="trip")
            await conversations.save(await agent.run("To Oslo", conversation=conversation))
            print("waiting for approval; run it again")
            return
        [item] = waiting
        paused = await conversations.load("trip")
        assert paused is not None
        assert paused.deferred_tool_requests is not None
        print("approved:", item.asked["payload"]["asked"][0]["arguments"])
        results = paused.deferred_tool_requests.build_results(approve_all=True)
        result = await agent.run(conversation=paused, deferred_tool_results=results)
        await conversations.save(result)
        print(result.output)


asyncio.run(main())
