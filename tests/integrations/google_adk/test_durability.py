"""Agents of ADK as runs: what is on record is not done again, and what a tool changed stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool, ToolContext
from google.adk.tools.base_toolset import BaseToolset
from google.genai import types

import foldlog
from foldlog.integrations.google_adk import agent_in

made: list[str] = []


class CallsOnce(BaseLlm):  # type: ignore[misc, unused-ignore]
    """Calls its tool, then says what it got."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        part = llm_request.contents[-1].parts[-1]
        made.append("model")
        if part.function_response:
            yield LlmResponse(content=types.ModelContent(str(part.function_response.response)))
        else:
            call = types.Part.from_function_call(name="note", args={"text": "hi"})
            yield LlmResponse(content=types.ModelContent([call]))


async def note(text: str, tool_context: ToolContext) -> str:
    """Note it."""
    made.append("tool")
    tool_context.state["noted"] = text
    return text.upper()


class Notes(BaseToolset):  # type: ignore[misc, unused-ignore]
    """A set with the tool."""

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        return [FunctionTool(note)]


def agent(name: str = "desk", tools: Any = (note,)) -> LlmAgent:
    made.clear()
    return LlmAgent(name=name, model=CallsOnce(model="script"), tools=list(tools))


async def come_to(store: foldlog.Store, of: Any, *, dies: bool = False) -> tuple[str, Any]:
    """What the agent says last in the run, and the session's state."""
    async with store.run("r", session_id="s") as run:
        runner = InMemoryRunner(agent_in(run, of))
        events = await runner.run_debug("go", quiet=True, session_id="t", user_id="u")
        session = await runner.session_service.get_session(
            app_name=runner.app_name, user_id="u", session_id="t"
        )
        if dies:
            raise ConnectionError
        return str(events[-1].content.parts[0].text), dict(session.state)


@pytest.mark.parametrize("tools", [(note,), (Notes(),)], ids=["function", "toolset"])
async def test_a_run_that_is_opened_again_does_nothing_twice(
    store: foldlog.Store, tools: Any
) -> None:
    desk = agent(tools=tools)
    with pytest.raises(ConnectionError):
        await come_to(store, desk, dies=True)
    assert made == ["model", "tool", "model"]
    assert await come_to(store, desk) == ("{'result': 'HI'}", {"noted": "hi"})
    assert made == ["model", "tool", "model"]
    assert list(desk.tools) == list(tools)


@pytest.mark.filterwarnings("ignore:SequentialAgent is deprecated:DeprecationWarning")
async def test_agents_below_it_are_steps_of_the_same_run(store: foldlog.Store) -> None:
    both = SequentialAgent(name="both", sub_agents=[agent("one"), agent("two")])
    await come_to(store, both)
    await come_to(store, both)
    assert made == ["model", "tool", "model"] * 2
    steps = [each.step for each in await store.run("r", session_id="s").steps()]
    assert steps == [
        *("one: model 1", "one: note adk-one-1-1", "one: model 2"),
        *("two: model 1", "two: note adk-two-1-1", "two: model 2"),
    ]


async def test_a_tool_that_is_no_step_is_done_in_every_execution(store: foldlog.Store) -> None:
    tool = FunctionTool(note)
    tool.custom_metadata = {"foldlog": False}
    desk = agent(tools=[tool])
    await come_to(store, desk)
    await come_to(store, desk)
    assert made == ["model", "tool", "model", "tool"]


async def test_an_option_that_no_step_has_is_refused(store: foldlog.Store) -> None:
    tool = FunctionTool(note)
    tool.custom_metadata = {"foldlog": {"repeat": True}}
    async with store.run("r", session_id="s") as run:
        with pytest.raises(foldlog.Misuse, match=r"tool 'note' has metadata.*repeatable"):
            agent_in(run, agent(tools=[tool]))


async def test_a_tool_beside_one_that_fails_ends_and_nobody_is_asked(store: foldlog.Store) -> None:
    has_failed = asyncio.Event()

    class CallsBoth(BaseLlm):  # type: ignore[misc, unused-ignore]
        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            if any(part.function_response for part in llm_request.contents[-1].parts):
                yield LlmResponse(content=types.ModelContent("both"))
                return
            calls = [types.Part.from_function_call(name=name, args={}) for name in ("slow", "bad")]
            yield LlmResponse(content=types.ModelContent(calls))

    async def slow() -> str:
        await has_failed.wait()
        made.append("slow")
        return "slow"

    async def bad() -> str:
        if not has_failed.is_set():
            has_failed.set()
            raise ConnectionError
        made.append("bad")
        return "bad"

    made.clear()
    both = LlmAgent(name="both", model=CallsBoth(model="script"), tools=[slow, bad])
    with pytest.raises(ConnectionError):
        await come_to(store, both)
    assert await store.waiting() == []
    assert await come_to(store, both) == ("both", {})
    assert made == ["slow", "bad"]
