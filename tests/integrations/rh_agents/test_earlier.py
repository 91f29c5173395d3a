"""Executions of versions before runs, whose steps were recorded with their state."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import foldlog
from foldlog import codec
from foldlog.integrations.rh_agents import ReplayMode, StateBackend
from foldlog.runs import RunPaused, StepUnknown
from foldlog_projections.rh_agents import states
from foldlog_projections.rh_agents.states import (
    Done,
    Failed,
    Intended,
    Owned,
    Retracted,
    Unrecorded,
    Waiting,
)
from tests.conftest import OpenStore
from tests.integrations.rh_agents.build import snapshot
from tests.integrations.rh_agents.running import Steps, history, loaded

LARGE = "large " * 100_000


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(codec.encode(value))


@pytest.fixture
async def earlier(store: foldlog.Store) -> foldlog.Store:
    """A store with an execution in which every kind of step was recorded."""
    key = states.kind("s")
    await StateBackend(store).save_state(snapshot("s", storage={"seat": "12A"}))
    artifact_id = await StateBackend(store).artifacts.add_artifact(b"picture")
    blob = await store.blobs.put(key, codec.encode(LARGE))
    steps: list[tuple[str, msgspec.Struct | None]] = [
        ("search", Done("search", 0.1, raw({"flights": [1, (2,)]}))),
        ("draw", Done("draw", 0.1, artifact_id=artifact_id)),
        ("large", Done("large", 0.1, blob=blob)),
        ("refused", Failed("refused", 0.2, "ValueError", "no")),
        ("undone", Retracted("undone")),
        ("lost", Unrecorded("lost", 0.1, "PayloadError")),
        ("pay", None),
    ]
    await store.append(key, Owned(1, "host:1", "a tenure"))
    for address, outcome in steps:
        await store.append(key, Intended(address, "tool"))
        if outcome is not None:
            await store.append(key, outcome)
    await store.append(key, Waiting("seat?", raw("Which?")))
    await store.append(key, Done("seat?", 0.0, raw("12A"), type="plain data"))
    await store.append(key, Waiting("approve", raw("Sure?")))
    return store


async def test_its_history_reads_as_before_and_after_it_was_entered(
    earlier: foldlog.Store, reopen: OpenStore
) -> None:
    expected = [
        ("search", "completed"),
        ("draw", "completed"),
        ("large", "completed"),
        ("refused", "failed"),
        ("undone", "retracted"),
        ("lost", "started"),
        ("pay", "started"),
        ("seat?", "completed"),
        ("approve", "awaiting"),
    ]
    before = await loaded(earlier, "s")
    assert history(before) == expected
    async with StateBackend(earlier).execution("s", session_id="ann") as entered:
        assert entered.storage == {"seat": "12A"}
    after = await loaded(await reopen(), "s")
    assert history(after) == expected
    assert after.artifact_refs.keys() == before.artifact_refs.keys() == {"draw"}
    events = [each.execution_state["history"]["events"] for each in (before, after)]
    assert [each["started_at"] for each in events[0]] == [each["started_at"] for each in events[1]]
    assert (await earlier.view(states.kind("s"))).steps == {}


async def test_it_goes_on_with_its_results(earlier: foldlog.Store, steps: Steps) -> None:
    never = steps.giving("never", None)

    async def entered() -> None:
        async with StateBackend(earlier).execution("s", session_id="ann") as run:
            assert await run.step("search", never) == {"flights": [1, (2,)]}
            assert await run.step("draw", never) == b"picture"
            assert await run.step("large", never) == LARGE
            assert await run.ask("seat?", "Which?") == "12A"
            for unknown in ("lost", "pay"):
                with pytest.raises(StepUnknown):
                    await run.step(unknown, never)
            await run.ask("approve", "Sure?")

    for _ in range(2):
        with pytest.raises(RunPaused):
            await entered()
    assert steps.called == []
    waiting = await earlier.waiting(session_id="ann")
    assert [each.step for each in waiting if each.kind.value == "question"] == ["approve"]


async def test_it_is_done_again_from_an_address(earlier: foldlog.Store, steps: Steps) -> None:
    async with StateBackend(earlier).execution("s", resume_from_address="draw") as run:
        assert await run.step("search", steps.giving("search", None)) == {"flights": [1, (2,)]}
        assert await run.step("draw", steps.giving("draw", b"new"), artifact=True) == b"new"
    assert steps.called == ["draw"]
    artifacts = StateBackend(earlier).artifacts
    assert len((await artifacts.collect_garbage(older_than=0)).artifact_ids) == 1


async def test_it_is_validated_and_nothing_recorded(earlier: foldlog.Store, steps: Steps) -> None:
    validation = ReplayMode.VALIDATION
    async with StateBackend(earlier).execution("s", replay_mode=validation) as run:
        await run.step("search", steps.giving("search", {"flights": [1]}))
        await run.step("large", steps.giving("large", LARGE))
    assert [each.path for each in run.validation.mismatches] == ["result.flights[1]"]
    assert not (await earlier.view(states.kind("s"))).session_id


async def test_a_run_of_its_name_goes_on_with_it(earlier: foldlog.Store, steps: Steps) -> None:
    async with earlier.run("s") as run:
        never = steps.giving("never", None)
        assert await run.step("search", lambda city: never(), "Oslo") == {"flights": [1, (2,)]}
        assert await run.step("large", never) == LARGE
        await run.step("refused", steps.giving("again", 1))
    async with earlier.run("s", session_id="of another session") as run:
        assert await run.steps() == []
    assert steps.called == ["again"]
    assert ("refused", "completed") in history(await loaded(earlier, "s"))


async def test_a_run_of_its_task_goes_on_with_it(store: foldlog.Store, steps: Steps) -> None:
    key = states.kind("trip%2F1/main")
    await store.belong("trip/1", key)
    done = Done("search", 0.1, raw(7))
    await store.append(key, Owned(1, "host:1", "a tenure"), Intended("search", "step"), done)
    async with store.run("main", session_id="trip/1") as run:
        assert await run.step("search", steps.giving("never", None)) == 7
    await store.clear_session("trip/1")
    async with store.run("main", session_id="trip/1") as run:
        assert await run.step("search", steps.giving("search", None)) is None
    assert steps.called == ["search"]
