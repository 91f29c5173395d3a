"""A model client that plays what it is given, at once or as a stream."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import CreateResult, FunctionExecutionResultMessage, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

import foldlog
from tests.integrations.autogen.scripted import MODEL

PATIENCE = 30.0

Turn = str | Exception | Sequence[FunctionCall]


def call(tool: str, id: str, **arguments: Any) -> FunctionCall:
    """A call of a tool, as a model wants it."""
    return FunctionCall(id, json.dumps(arguments), tool)


class Played(ReplayChatCompletionClient):  # type: ignore[misc, unused-ignore]
    """Says one thing after another. `heard` is what it was given, at each call.

    Args:
        turns: a text, an error to raise, or calls of tools.
    """

    def __init__(self, *turns: Turn) -> None:
        super().__init__([], model_info=MODEL)
        self._turns = list(turns)
        self.heard: list[list[Any]] = []

    def _next(self, messages: Sequence[Any]) -> CreateResult:
        self.heard.append(list(messages))
        turn = self._turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        return CreateResult(
            finish_reason="stop",
            content=turn if isinstance(turn, str) else list(turn),
            usage=RequestUsage(9, 4),
            cached=False,
        )

    async def create(self, messages: Sequence[Any], **options: Any) -> CreateResult:
        return self._next(messages)

    async def create_stream(self, messages: Sequence[Any], **options: Any) -> AsyncIterator[Any]:
        result = self._next(messages)
        if isinstance(result.content, str):
            for word in result.content.split():
                yield word
        yield result


def outputs_in(heard: Sequence[Any]) -> dict[str, str]:
    """What the model heard of its calls, by their ids."""
    return {
        part.call_id: part.content
        for each in heard
        if isinstance(each, FunctionExecutionResultMessage)
        for part in each.content
    }


async def steps_of(store: foldlog.Store) -> dict[str, str]:
    """What the run has on record: its steps, and where each stands."""
    steps = await store.run("r", session_id="s").steps()
    return {each.step: each.phase for each in steps}
