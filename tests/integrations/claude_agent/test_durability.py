"""Claude Code in a run: a query is asked once, and its tools in this process are steps."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    tool,
)

import foldlog
from foldlog import Misuse
from foldlog.integrations.calls import AgentSteps
from foldlog.integrations.claude_agent import query_in
from foldlog.integrations.claude_agent.durability import _call_of, _Query, _taken_up
from foldlog.runs import RunPaused
from tests.integrations.claude_agent.scripted import durable, options_of
from tests.integrations.durable.script import Script, read_calls

PATIENCE = 30.0
ANSWER = "book Bergen: done, book Oslo: done, search Oslo: done"


# The SDK's first versions leave streams open where a query is left early.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning")


@pytest.fixture(autouse=True)
def _no_claude_of_the_developers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    yield
    gc.collect()


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """What Claude Code does: search, then book twice."""
    return Script(tmp_path / "calls")


def text(said: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}]}


def tools_of(script: Script, before_booking: Any = None) -> list[Any]:
    """The script's tools; something happens first in one of them."""

    @tool("search", "Search.", {"city": str})
    async def search(arguments: Any) -> dict[str, Any]:
        return text(script.tool("search", arguments["city"]))

    @tool("book", "Book.", {"city": str})
    async def book(arguments: Any) -> dict[str, Any]:
        if before_booking is not None:
            await before_booking(arguments["city"])
        return text(script.tool("book", arguments["city"]))

    return [search, book]


async def asked(run: foldlog.Run, options: Any, made: Any, **given: Any) -> list[Any]:
    """The messages of a query."""
    servers = {"travel": made}
    async with asyncio.timeout(PATIENCE):
        messages = query_in(run, prompt="go", options=options, servers=servers, **given)
        return [each async for each in messages]


def models_in(script: Script) -> list[str]:
    calls = read_calls(script.file)
    return [call for call, moment, _ in calls if moment == "begun" and call.startswith("model")]


async def test_a_query_that_has_ended_is_not_made_again(
    store: foldlog.Store, script: Script
) -> None:
    found = []
    for _ in range(2):
        async with store.run("r", session_id="s") as run:
            found.append(await asked(run, options_of(script), tools_of(script)))
    assert [type(each).__name__ for each in found[0]].count("AssistantMessage") == 3
    [result] = found[1]
    assert isinstance(result, ResultMessage)
    assert (result, result.result) == (found[0][-1], ANSWER)
    assert models_in(script) == ["model 1", "model 2", "model 3"]
    with pytest.raises(foldlog.StepChanged, match="elsewhere"):
        async with store.run("r", session_id="s") as run:
            [each async for each in query_in(run, prompt="elsewhere")]


async def test_a_question_in_a_tool_waits_and_claude_code_hears_no_error(
    store: foldlog.Store, script: Script
) -> None:
    async def go(run: foldlog.Run) -> list[Any]:
        async def approve(city: str) -> None:
            assert await run.ask(f"book {city}", f"Book in {city}?", wait=0)

        return await asked(run, options_of(script), tools_of(script, approve))

    for city in ("Oslo", "Bergen"):
        async with store.run("r", session_id="s") as run:
            with pytest.raises(RunPaused):
                await go(run)
        [item] = await store.waiting()
        assert item.asked == f"Book in {city}?"
        await store.answer(item.id, True)
    async with store.run("r", session_id="s") as run:
        assert (await go(run))[-1].result == ANSWER
    calls = [call for call, moment, _ in read_calls(script.file) if moment == "done"]
    assert [call for call in calls if not call.startswith("model")] == [
        "search Oslo",
        "book Oslo",
        "book Bergen",
    ]


async def test_a_question_in_a_permission_waits_and_claude_code_hears_the_answer(
    store: foldlog.Store, script: Script
) -> None:
    async def go(run: foldlog.Run) -> list[Any]:
        async def may(name: str, given: Any, context: Any) -> Any:
            if name == "mcp__travel__search" or await run.ask(f"{name} {given}", given, wait=0):
                return PermissionResultAllow()
            return PermissionResultDeny(message="no")

        options = replace(options_of(script), can_use_tool=may)
        return await asked(run, options, tools_of(script))

    for city, answer in (("Oslo", True), ("Bergen", False)):
        async with store.run("r", session_id="s") as run:
            with pytest.raises(RunPaused):
                await go(run)
        [item] = await store.waiting()
        assert item.asked == {"city": city}
        await store.answer(item.id, answer)
    async with store.run("r", session_id="s") as run:
        assert (await go(run))[-1].result == "book Oslo: done, no book, search Oslo: done"
    calls = [call for call, moment, _ in read_calls(script.file) if moment == "done"]
    assert [call for call in calls if not call.startswith("model")] == ["search Oslo", "book Oslo"]


async def test_a_worker_takes_a_query_up_when_the_question_is_answered(
    store: foldlog.Store, script: Script
) -> None:
    @foldlog.durable(name="agent")
    async def travel(run: foldlog.Run, prompt: str) -> str:
        async def approve(city: str) -> None:
            assert await run.ask(f"book {city}", city)

        return str((await asked(run, options_of(script), tools_of(script, approve)))[-1].result)

    async with foldlog.Worker(store, [travel]):
        handle = await store.start("agent", "go", id="r", session_id="s")
        cities = []
        async with aclosing(store.watch_waiting()) as items:
            async for item in items:
                cities.append(item.asked)
                await store.answer(item.id, True)
                if len(cities) == 2:
                    break
        assert await handle.result(timeout=PATIENCE) == ANSWER
    assert cities == ["Oslo", "Bergen"]


async def test_a_tool_that_raises_is_on_record(store: foldlog.Store, script: Script) -> None:
    failed: list[str] = []

    async def fail(city: str) -> None:
        failed.append(city)
        raise ValueError(f"no trains to {city}")

    options: Any = {"book": {"retries": 1, "pause": 0.01}}
    async with store.run("r", session_id="s") as run:
        messages = await asked(run, options_of(script), tools_of(script, fail), tools=options)
    assert messages[-1].result == "no trains to Bergen, no trains to Oslo, search Oslo: done"
    assert failed == ["Oslo", "Oslo", "Bergen", "Bergen"]
    steps = {each.step: each.phase for each in await store.run("r", session_id="s").steps()}
    assert set(steps.values()) == {"done"}
    usage = (await store.run("r", session_id="s").usages())["m-1"]
    assert (usage.input_tokens, usage.output_tokens) == (9, 4)


async def test_the_same_call_twice_is_two_calls_and_those_taken_up_are_over(
    store: foldlog.Store, script: Script
) -> None:
    [search, _] = tools_of(script)
    call = _call_of("mcp__travel__search", {"city": "Oslo"})
    had = []
    for taken_up in (0, 0, 1):
        async with store.run("r", session_id="s") as run:
            asked_for = _Query(run, "claude", ClaudeAgentOptions(), {}, AgentSteps(run))
            asked_for._calls[call] += taken_up
            handle = asked_for._tool("travel", search).handler
            for _ in range(2):
                await handle({"city": "Oslo"})
        had.append(sum(moment == "done" for _, moment, _ in read_calls(script.file)))
    assert had == [2, 2, 3]


async def test_tools_of_a_module_serve_any_number_of_runs(
    store: foldlog.Store, script: Script
) -> None:
    async with foldlog.Worker(store, [durable(tools_of(script), options_of(script))]):
        for name in ("one", "two"):
            handle = await store.start("agent", "go", id=name, session_id="s")
            assert await handle.result(timeout=PATIENCE) == ANSWER
    assert len(models_in(script)) == 6


async def test_options_of_a_session_are_refused(store: foldlog.Store) -> None:
    async with store.run("r", session_id="s") as run:
        with pytest.raises(Misuse, match="resume"):
            await asked(run, ClaudeAgentOptions(resume="x"), [])
        wrong: Any = {"search": {"repeat": True}}
        with pytest.raises(Misuse, match="repeatable"):
            await asked(run, None, [], tools=wrong)


def test_a_call_is_taken_up_when_the_model_has_spoken_after_its_result() -> None:
    def use(id: str, message: str) -> Any:
        block = {"type": "tool_use", "id": id, "name": "mcp__t__book", "input": {"city": "Oslo"}}
        return {"type": "assistant", "message": {"id": message, "content": [block]}}

    def result(id: str) -> Any:
        block = {"type": "tool_result", "tool_use_id": id}
        return {"type": "user", "message": {"content": [block]}}

    book = _call_of("mcp__t__book", {"city": "Oslo"})
    said = {"type": "assistant", "message": {"id": "m2", "content": [{"type": "text"}]}}
    asks: list[Any] = [{"type": "summary"}, {"type": "user", "message": {"content": "go"}}]
    beside = [*asks, use("1", "m1"), result("1"), use("2", "m1"), result("2")]
    assert _taken_up(beside) == {}
    assert _taken_up([*beside, said]) == {book: 2}
    assert _taken_up([*asks, use("1", "m1"), said]) == {}
    assert _taken_up([*asks, use("1", "m1"), result("1"), said, use("2", "m3")]) == {book: 1}
