"""The scripted agent of the matrix, in OpenAI Agents."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

import foldlog
from agents import (
    Agent,
    Model,
    ModelResponse,
    Runner,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from foldlog.integrations.openai_agents import FoldlogRunner
from tests.integrations.durable.script import Script

set_tracing_disabled(True)


def make(script: Script) -> Any:
    """The durable function that does the script."""
    return durable(agent_of(script))


def make_bare(script: Script) -> Any:
    """The same, without durability: what the matrix has to find out."""
    agent = agent_of(script)

    @foldlog.durable(name="agent", attempts=10)
    async def bare(run: foldlog.Run, prompt: str) -> str:
        result = await Runner.run(agent, prompt)
        return str(result.final_output)

    return bare


def make_repeating(script: Script) -> Any:
    """The same, with tools that say wrongly that they may be done twice."""
    repeatable: Any = {"search": {"repeatable": True}, "book": {"repeatable": True}}
    return durable(agent_of(script), tools=repeatable)


def durable(agent: Agent[Any], **options: Any) -> Any:
    """The durable function of an agent: "agent", which takes a prompt."""

    @foldlog.durable(name="agent", attempts=10)
    async def function(run: foldlog.Run, prompt: str) -> str:
        result = await FoldlogRunner(run, **options).run(agent, prompt)
        return str(result.final_output)

    return function


class ScriptModel(Model):
    """A model that says what the script wants."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **options: Any
    ) -> ModelResponse:
        items = [] if isinstance(input, str) else input
        calls = {each["call_id"] for each in items if each.get("type") == "function_call"}
        # The first calls of its responses say how many there were.
        wanted = self._script.model(len(calls & {"call-1", "call-2"}))
        if wanted:
            output: list[Any] = [
                ResponseFunctionToolCall(
                    arguments=json.dumps({"city": each.city}),
                    call_id=each.id,
                    name=each.tool,
                    type="function_call",
                )
                for each in wanted
            ]
        else:
            results = [
                str(each["output"]) for each in items if each.get("type") == "function_call_output"
            ]
            output = [said(self._script.answer(results))]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def agent_of(script: Script) -> Agent[Any]:
    """The agent that does the script."""

    @function_tool
    async def search(city: str) -> str:
        return script.tool("search", city)

    @function_tool
    async def book(city: str) -> str:
        return script.tool("book", city)

    return Agent("travel", tools=[search, book], model=ScriptModel(script))


def said(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(annotations=[], text=text, type="output_text")
    return ResponseOutputMessage(
        id="said", content=[content], role="assistant", status="completed", type="message"
    )
