"""A model that plays what it is given, at once or as a stream."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseTextDeltaEvent,
    ResponseUsage,
)

import foldlog
from agents import Model, ModelResponse, Usage
from tests.integrations.openai_agents.scripted import said

PATIENCE = 30.0

Turn = str | Exception | Sequence[ResponseFunctionToolCall]


def call(tool: str, id: str, **arguments: Any) -> ResponseFunctionToolCall:
    """A call of a tool, as a model wants it."""
    return ResponseFunctionToolCall(
        arguments=json.dumps(arguments), call_id=id, name=tool, type="function_call"
    )


class Played(Model):
    """Says one thing after another. `heard` is what it was given, at each call.

    Args:
        turns: a text, an error to raise, or calls of tools.
    """

    model = "m-1"

    def __init__(self, *turns: Turn) -> None:
        self._turns = list(turns)
        self.heard: list[Any] = []

    def _next(self, input: Any) -> list[Any]:
        self.heard.append(input)
        turn = self._turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        return [said(turn)] if isinstance(turn, str) else list(turn)

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **options: Any
    ) -> ModelResponse:
        usage = Usage(requests=1, input_tokens=9, output_tokens=4, total_tokens=13)
        return ModelResponse(output=self._next(input), usage=usage, response_id=None)

    async def stream_response(
        self, system_instructions: Any, input: Any, *args: Any, **options: Any
    ) -> AsyncIterator[Any]:
        output = self._next(input)
        for word in output[0].content[0].text.split() if hasattr(output[0], "content") else ():
            yield ResponseTextDeltaEvent(
                type="response.output_text.delta",
                content_index=0,
                delta=word,
                item_id="said",
                logprobs=[],
                output_index=0,
                sequence_number=0,
            )
        used: Any = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
        used |= {"input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}}
        used |= {"output_tokens_details": {"reasoning_tokens": 0}}
        response = Response(
            id="r-1",
            created_at=0,
            model="m-1",
            object="response",
            output=output,
            parallel_tool_calls=False,
            tool_choice="auto",
            tools=[],
            usage=ResponseUsage.model_validate(used),
        )
        yield ResponseCompletedEvent(
            type="response.completed", response=response, sequence_number=1
        )


def outputs_in(heard: Any) -> dict[str, Any]:
    """What the model heard of its calls, by their ids."""
    return {
        each["call_id"]: each["output"]
        for each in heard
        if each.get("type") == "function_call_output"
    }


async def steps_of(store: foldlog.Store, session_id: str = "s", run: str = "r") -> dict[str, str]:
    """What a run has on record: its steps, and where each stands."""
    steps = await store.run(run, session_id=session_id).steps()
    return {each.step: each.phase for each in steps}
