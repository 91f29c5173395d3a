"""The store of pydantic-ai-harness' StepPersistence: runs, events, snapshots, effects of tools."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserPromptPart,
)

import foldlog
from foldlog import kinds
from tests.integrations.missing import is_installed
from tests.integrations.pydantic_ai.playing import Played, call

if not is_installed("pydantic_ai_harness.step_persistence"):
    pytest.skip("pydantic-ai-harness is not installed", allow_module_level=True)

from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    RunRecord,
    StepEvent,
    StepPersistence,
    StepStore,
    ToolEffectRecord,
    continue_run,
)

from foldlog.integrations.objects import Unreadable
from foldlog.integrations.pydantic_ai import FoldlogDurability
from foldlog.integrations.pydantic_ai.steps import FoldlogStepStore


@pytest.fixture
def steps(store: foldlog.Store) -> FoldlogStepStore:
    return FoldlogStepStore(store, "ann")


def at(minute: int, hours: int = 0) -> dt.datetime:
    zone = dt.timezone(dt.timedelta(hours=hours))
    return dt.datetime(2026, 1, 1, 12, minute, tzinfo=zone)


def said(text: str) -> list[ModelMessage]:
    return [ModelRequest([UserPromptPart(text, timestamp=at(0))], timestamp=at(0))]


def snapshot(step: int, text: str = "hello", **options: Any) -> ContinuableSnapshot:
    return ContinuableSnapshot(run_id="r1", step_index=step, messages=said(text), **options)


def effect(id: str, status: Any, run: str = "r1", **options: Any) -> ToolEffectRecord:
    return ToolEffectRecord(tool_call_id=id, tool_name="ship", run_id=run, status=status, **options)


def test_it_is_a_step_store(steps: FoldlogStepStore) -> None:
    assert isinstance(steps, StepStore)


async def test_what_is_not_there_is_none_or_empty(steps: FoldlogStepStore) -> None:
    assert await steps.get_run(run_id="no") is None
    assert await steps.list_runs() == []
    assert await steps.list_events(run_id="no") == []
    assert await steps.latest_snapshot(run_id="no") is None
    assert await steps.list_snapshots(run_id="no") == []
    assert await steps.get_tool_effect(run_id="no", tool_call_id="t") is None
    assert await steps.list_unresolved_tool_effects(run_id="no") == []


async def test_a_run_is_registered_once(steps: FoldlogStepStore) -> None:
    record = RunRecord(run_id="r1", conversation_id="c", agent_name="a", metadata={"ключ": "🚀"})
    await steps.register_run(record)
    assert await steps.get_run(run_id="r1") == record
    with pytest.raises(ValueError, match="'r1' is already in the store"):
        await steps.register_run(RunRecord(run_id="r1"))


async def test_of_many_that_register_a_run_one_does(store: foldlog.Store) -> None:
    stores = [FoldlogStepStore(store, "ann") for _ in range(8)]
    came = await asyncio.gather(
        *[each.register_run(RunRecord(run_id="r1")) for each in stores], return_exceptions=True
    )
    assert [type(each) for each in came].count(ValueError) == 7


async def test_runs_are_listed_by_the_moment_at_which_they_began(steps: FoldlogStepStore) -> None:
    await steps.register_run(RunRecord(run_id="b", parent_run_id="p", started_at=at(2)))
    await steps.register_run(RunRecord(run_id="a", conversation_id="c", started_at=at(30, 1)))
    both = RunRecord(run_id="c", parent_run_id="p", conversation_id="c", started_at=at(3))
    await steps.register_run(both)
    assert [each.run_id for each in await steps.list_runs()] == ["a", "b", "c"]
    assert [each.run_id for each in await steps.list_runs(parent_run_id="p")] == ["b", "c"]
    assert [each.run_id for each in await steps.list_runs(conversation_id="c")] == ["a", "c"]
    assert await steps.list_runs(parent_run_id="p", conversation_id="c") == [both]


async def test_events_are_in_order_and_one_of_a_key_is_there_once(steps: FoldlogStepStore) -> None:
    keyed = StepEvent(run_id="r1", kind="run_started", step_index=0, idempotency_key="0")
    plain = StepEvent(run_id="r1", kind="tool_call_started", step_index=1, tool_name="search")
    for each in (keyed, plain, plain):
        await steps.append_event(each)
    again = StepEvent(run_id="r1", kind="run_started", step_index=0, idempotency_key="0")
    again.timestamp = at(59)  # as a step that is done again makes it
    await steps.append_event(again)
    await steps.append_event(StepEvent(run_id="r2", kind="run_started", step_index=0))
    assert await steps.list_events(run_id="r1") == [keyed, plain, plain]


async def test_the_last_snapshot_counts_and_interrupted_ones_if_asked_for(
    steps: FoldlogStepStore,
) -> None:
    first, second = snapshot(7, "first"), snapshot(0, "second")
    torn = snapshot(1, "torn", state="interrupted")
    for each in (first, second, torn):
        await steps.save_snapshot(each)
    assert await steps.latest_snapshot(run_id="r1") == second
    assert await steps.latest_snapshot(run_id="r1", include_interrupted=True) == torn
    assert await steps.list_snapshots(run_id="r1") == [first, second]
    assert await steps.list_snapshots(run_id="r1", include_interrupted=True) == [
        first,
        second,
        torn,
    ]
    assert await continue_run(steps, run_id="r1") == second.messages


async def test_a_snapshot_of_a_key_is_there_once(steps: FoldlogStepStore) -> None:
    older, newer = snapshot(3, idempotency_key="0:3"), snapshot(3, "more", idempotency_key="1:3")
    for each in (older, newer, older, snapshot(3, "other", idempotency_key="0:3")):
        await steps.save_snapshot(each)
    assert await steps.list_snapshots(run_id="r1") == [older, newer]


async def test_a_message_is_stored_once_however_many_snapshots_have_it(
    store: foldlog.Store, steps: FoldlogStepStore
) -> None:
    messages = said("x" * 60_000)
    for step in range(5):
        messages = [*messages, ModelResponse([TextPart(f"step {step}")], timestamp=at(step))]
        found = ContinuableSnapshot(run_id="r1", step_index=step, messages=messages)
        await steps.save_snapshot(found)
    assert await steps.latest_snapshot(run_id="r1") == found
    bytes_ = [
        len(each)
        for conversation in (await store.view(kinds.messages("ann"))).by_name.values()
        for each in conversation.encoded.values()
    ]
    assert sum(each > 50_000 for each in bytes_) == 1


async def test_how_a_tools_call_stands_replaces_how_it_stood(steps: FoldlogStepStore) -> None:
    ended = effect("t1", "completed", ended_at=at(5), effect_summary="shipped")
    for each in (effect("t1", "started"), effect("t2", "started"), ended, effect("t3", "failed")):
        await steps.record_tool_effect(each)
    await steps.record_tool_effect(effect("t1", "started", run="r2"))
    assert await steps.get_tool_effect(run_id="r1", tool_call_id="t1") == ended
    unresolved = await steps.list_unresolved_tool_effects(run_id="r1")
    assert [each.tool_call_id for each in unresolved] == ["t2"]


async def test_it_goes_with_its_session(store: foldlog.Store, steps: FoldlogStepStore) -> None:
    await steps.register_run(RunRecord(run_id="r1"))
    await steps.save_snapshot(snapshot(0))
    other = FoldlogStepStore(store, "ben")
    assert await other.list_runs() == []
    await store.clear_session("ann")
    assert await steps.list_runs() == []
    assert await steps.latest_snapshot(run_id="r1") is None


async def test_what_redact_replaces_is_left_out_or_unreadable(
    embedded_path: Path, namespace: str
) -> None:
    def hide(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "run" in value:
            return "hidden"
        hidden = {"parts": "hidden"} if "parts" in value else {}
        return {**value, **hidden, **({"event": "hidden"} if "event" in value else {})}

    async with foldlog.connect(
        path=embedded_path,
        namespace=namespace,
        redact=lambda saving: {name: hide(value) for name, value in saving.values.items()},
    ) as store:
        steps = FoldlogStepStore(store, "ann")
        await steps.register_run(RunRecord(run_id="r1"))
        await steps.append_event(StepEvent(run_id="r1", kind="run_started", step_index=0))
        await steps.save_snapshot(snapshot(0, "a secret"))
        await steps.save_snapshot(snapshot(1, "another one"))
        assert await steps.list_runs() == []
        with pytest.raises(Unreadable):
            await steps.list_events(run_id="r1")
        with pytest.raises(Unreadable):
            await steps.latest_snapshot(run_id="r1")
        found = (await store.view(kinds.messages("ann"))).by_name
        [kept] = [each for name, each in found.items() if name.endswith("messages")]
        assert len(kept) == 1  # not even a digest tells what was said


async def test_an_agent_is_continued_from_what_was_kept(
    store: foldlog.Store, steps: FoldlogStepStore
) -> None:
    played = Played([call("act", "c1")], "done")
    persistence = StepPersistence[None](store=steps, agent_name="support")
    agent = Agent(played.model, name="a", capabilities=[persistence])

    @agent.tool_plain
    def act() -> str:
        return "sunny"

    await agent.run("go")
    [record] = await steps.list_runs()
    assert record.agent_name == "support"
    kinds_ = [each.kind for each in await steps.list_events(run_id=record.run_id)]
    assert (kinds_[0], kinds_[-1]) == ("run_started", "run_completed")
    done = await steps.get_tool_effect(run_id=record.run_id, tool_call_id="c1")
    assert done is not None
    assert done.status == "completed"
    history = await continue_run(steps, run_id=record.run_id)
    assert isinstance(history[0], ModelRequest)
    assert len(history) == 4


async def test_a_rerun_of_a_durable_agent_keeps_nothing_twice(
    store: foldlog.Store, steps: FoldlogStepStore
) -> None:
    played = Played([call("act", "c1")], "done")
    persistence = StepPersistence[None](store=steps)
    agent = Agent(played.model, name="a", capabilities=[persistence])

    @agent.tool_plain
    def act() -> str:
        return "sunny"

    kept = []
    for _ in range(2):
        async with store.run("r", session_id="ann") as run:
            result = await agent.run("go", capabilities=[FoldlogDurability(run)])
        id = result.run_id
        assert [each.run_id for each in await steps.list_runs()] == [id]
        snapshots = await steps.list_snapshots(run_id=id, include_interrupted=True)
        kept.append((await steps.list_events(run_id=id), snapshots))
    assert kept[0] == kept[1]
    assert played.asked == 2
