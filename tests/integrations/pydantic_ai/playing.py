"""Models that play what they are given, and durable functions of agents, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

import foldlog
from foldlog.integrations.pydantic_ai import FoldlogDurability

PATIENCE = 30.0

Turn = str | Exception | Sequence[ToolCallPart]


def call(tool: str, id: str, **arguments: Any) -> ToolCallPart:
    """A call of a tool, as a model wants it."""
    return ToolCallPart(tool, arguments, tool_call_id=id)


class Played:
    """A model that says one thing after another: `model`. `asked` says how often it was asked.

    Args:
        turns: a text, an error to raise, or calls of tools.
    """

    def __init__(self, *turns: Turn) -> None:
        self._turns = turns
        self.asked = 0
        self.messages: list[ModelMessage] = []
        self.model = FunctionModel(self._respond, stream_function=self._stream)

    def _next(self, messages: list[ModelMessage]) -> str | Sequence[ToolCallPart]:
        self.messages = list(messages)
        self.asked += 1
        turn = self._turns[sum(isinstance(each, ModelResponse) for each in messages)]
        if isinstance(turn, Exception):
            raise turn
        return turn

    def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turn = self._next(messages)
        return ModelResponse([TextPart(turn)] if isinstance(turn, str) else list(turn))

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        turn = self._next(messages)
        if isinstance(turn, str):
            for word in turn.split():
                yield f"{word} "
            return
        for index, each in enumerate(turn):
            arguments, id = each.args_as_json_str(), each.tool_call_id
            yield {index: DeltaToolCall(each.tool_name, arguments, tool_call_id=id)}


def durable(agent: Agent[Any, Any], **options: Any) -> Any:
    """The durable function of an agent: "agent", which takes a prompt."""

    @foldlog.durable(name="agent")
    async def function(run: foldlog.Run, prompt: str) -> Any:
        result = await agent.run(prompt, capabilities=[FoldlogDurability(run, **options)])
        return result.output

    return function


async def steps_of(store: foldlog.Store, session_id: str = "s", run: str = "r") -> dict[str, str]:
    """What a run has on record: its steps, and where each stands."""
    steps = await store.run(run, session_id=session_id).steps()
    return {each.step: each.phase for each in steps}


async def answered(store: foldlog.Store, *answers: Any) -> list[Any]:
    """Answer what waits, one after another; return what was asked."""
    asked: list[Any] = []
    async for item in store.watch_waiting():
        asked.append(item.asked)
        await store.answer(item.id, answers[len(asked) - 1])
        if len(asked) == len(answers):
            break
    return asked
