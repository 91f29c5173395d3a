"""An agent without a model service: it refunds what a person approves, and counts what it hears."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from agents import Agent, Model, ModelResponse, Usage, function_tool, set_tracing_disabled

set_tracing_disabled(True)


@function_tool(needs_approval=True)
def refund(order: int) -> str:
    """Pay an order back."""
    return f"refunded {order}"


class DeskModel(Model):
    """Calls `refund` when it is asked to, and otherwise says how often a user has spoken."""

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **options: Any
    ) -> ModelResponse:
        last = input[-1]
        if last.get("type") == "function_call_output":
            output: Any = _said(last["output"])
        elif last["content"].startswith("refund "):
            output = ResponseFunctionToolCall(
                arguments=f'{{"order": {last["content"].split()[1]}}}',
                call_id="call-1",
                name="refund",
                type="function_call",
            )
        else:
            output = _said(f"{sum(each.get('role') == 'user' for each in input)} heard")
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def make_desk(**options: Any) -> Agent[Any]:
    return Agent(**{"name": "desk", "tools": [refund], "model": DeskModel(), **options})


def _said(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(annotations=[], text=text, type="output_text")
    return ResponseOutputMessage(
        id="said", content=[content], role="assistant", status="completed", type="message"
    )
