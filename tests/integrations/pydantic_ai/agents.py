"""An agent with a scripted model: it counts what it was told, and asks before it books."""

from __future__ import annotations

from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel


def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    parts = [part for each in messages if isinstance(each, ModelRequest) for part in each.parts]
    told = [part.content for part in parts if isinstance(part, UserPromptPart)]
    if isinstance(parts[-1], ToolReturnPart):
        return ModelResponse([TextPart(str(parts[-1].content))])
    if str(told[-1]).startswith("book"):
        return ModelResponse([ToolCallPart("book", {"train": told[-1]}, tool_call_id="call-1")])
    return ModelResponse([TextPart(f"{len(told)} told")])


def make_agent() -> Agent[None, str | DeferredToolRequests]:
    agent = Agent(FunctionModel(respond), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def book(train: str) -> str:
        return f"booked: {train}"

    return agent
