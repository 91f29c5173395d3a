"""A chat client that plays what it is given, at once or as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from agent_framework import (
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)

import foldlog

PATIENCE = 30.0

Turn = str | Exception | Sequence[Content]


def call(tool: str, id: str, **arguments: Any) -> Content:
    """A call of a tool, as a model wants it."""
    return Content.from_function_call(call_id=id, name=tool, arguments=arguments)


class Played(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):  # type: ignore[misc, unused-ignore]
    """Says one thing after another. `heard` is what it was given, at each call.

    Args:
        turns: a text, an error to raise, or calls of tools.
    """

    def __init__(self, *turns: Turn, **options: Any) -> None:
        super().__init__(**options)
        self._turns = list(turns)
        self.heard: list[list[Message]] = []

    def _next(self, messages: Sequence[Message]) -> list[Any]:
        self.heard.append(list(messages))
        turn = self._turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        return [Content.from_text(turn)] if isinstance(turn, str) else list(turn)

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Any, **_: Any
    ) -> Any:
        if stream:
            return ResponseStream(self._stream(messages), finalizer=ChatResponse.from_updates)

        async def answer() -> ChatResponse:
            return ChatResponse(
                messages=[Message("assistant", self._next(messages))],
                model="m-1",
                usage_details={"input_token_count": 9, "output_token_count": 4},
            )

        return answer()

    async def _stream(self, messages: Sequence[Message]) -> AsyncIterator[ChatResponseUpdate]:
        for each in self._next(messages):
            parts = [Content.from_text(word) for word in each.text.split()] if each.text else [each]
            for part in parts:
                yield ChatResponseUpdate(contents=[part], role="assistant", model="m-1")


def outputs_in(heard: Sequence[Message]) -> dict[str, Any]:
    """What the model heard of its calls, by their ids."""
    return {
        str(part.call_id): part.result
        for each in heard
        for part in each.contents
        if part.type == "function_result"
    }


async def steps_of(store: foldlog.Store) -> dict[str, str]:
    """What the run has on record: its steps, and where each stands."""
    steps = await store.run("r", session_id="s").steps()
    return {each.step: each.phase for each in steps}
