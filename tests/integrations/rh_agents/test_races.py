"""What others do in the moment before an execution's append, or a caller's cancellation in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import foldlog
from foldlog.integrations.rh_agents import StateBackend, StateStatus
from foldlog.runs import RunPaused, RunTakenOver
from tests.integrations.rh_agents.build import event, snapshot
from tests.integrations.rh_agents.interleaved import InterleavedLog
from tests.integrations.rh_agents.running import Bus, Steps, answered, history, loaded


@pytest.fixture
def log() -> InterleavedLog:
    return InterleavedLog()


@pytest.fixture
async def store(log: InterleavedLog) -> AsyncIterator[foldlog.Store]:
    async with foldlog.memory_store(log=log) as store:
        yield store


@pytest.fixture
async def other(log: InterleavedLog) -> AsyncIterator[foldlog.Store]:
    async with foldlog.memory_store(log=log) as other:
        yield other


async def test_an_answer_that_comes_while_it_is_asked_again_is_not_lost(
    log: InterleavedLog, store: foldlog.Store, other: foldlog.Store
) -> None:
    bus = Bus()
    with pytest.raises(RunPaused):
        async with StateBackend(store).execution("s", event_bus=bus) as run:
            await run.ask("approve", "sure?")

    async def answer() -> None:
        await answered(other, "yes")

    async with StateBackend(store).execution("s", event_bus=bus) as run:
        log.interleave("waiting.began", answer)
        assert await run.ask("approve", "sure?") == "yes"
    assert (await loaded(store, "s")).status is StateStatus.COMPLETED
    assert bus.told == [("approve", "awaiting")]


async def test_a_question_that_waits_already_is_not_published_again(store: foldlog.Store) -> None:
    bus = Bus()
    for request in ("sure?", "sure?", "really?"):
        with pytest.raises(RunPaused):
            async with StateBackend(store).execution("s", event_bus=bus) as run:
                await run.ask("approve", request)
    assert bus.told == [("approve", "awaiting")] * 2


async def test_a_state_that_is_saved_while_it_is_deleted_is_listed(
    log: InterleavedLog, store: foldlog.Store, other: foldlog.Store
) -> None:
    """Else nobody would find it, and what it refers to would be garbage."""
    await StateBackend(store).save_state(snapshot("s"))
    await StateBackend(store).artifacts.save_artifact("a", b"x")
    forget = store._core.hot_views.forget

    async def purged_and_saved(*args: Any, **options: Any) -> None:
        await forget(*args, **options)
        await StateBackend(other).save_state(snapshot("s", event("new"), artifact_refs={"a": "a"}))

    store._core.hot_views.forget = purged_and_saved  # type: ignore[method-assign]
    assert await StateBackend(store).delete_state("s") is True
    assert history(await loaded(store, "s")) == [("new", "completed")]
    assert [found.state_id for found in await StateBackend(store).list_states()] == ["s"]
    assert await StateBackend(store).artifacts.collect_garbage(older_than=0) == ((), 0)


async def test_what_was_deleted_while_it_was_taken_over_does_not_come_back(
    log: InterleavedLog, store: foldlog.Store, other: foldlog.Store
) -> None:
    async with StateBackend(other).execution("s") as run:
        run.storage["secret"] = 1
        run.metadata.tags.append("old")
    log.interleave("state.run", lambda: StateBackend(other).delete_state("s"))
    with pytest.raises(RunTakenOver):
        async with StateBackend(store).execution("s") as run:
            assert run.storage == {}
    found = await loaded(store, "s")
    assert (found.execution_state["storage"]["data"], found.metadata.tags) == ({}, [])


async def test_steps_beside_one_that_pauses_end_in_a_pause(
    store: foldlog.Store, steps: Steps
) -> None:
    async def agent(run: foldlog.integrations.rh_agents.Execution) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(run.ask("approve"))

    for _ in range(2):
        with pytest.raises(ExceptionGroup) as stopped:
            async with StateBackend(store).execution("s") as run:
                await run.step("agent", agent, run)
        assert stopped.value.subgroup(RunPaused) is not None
        found = await loaded(store, "s")
        assert found.status is StateStatus.PAUSED
        assert dict(history(found))["agent"] == "retracted"


async def test_a_failure_beside_a_pause_is_a_failure(store: foldlog.Store, steps: Steps) -> None:
    async def both() -> None:
        async with StateBackend(store).execution("s") as run:
            results = await asyncio.gather(
                run.ask("approve"),
                run.step("pay", steps.raising("pay", ValueError())),
                return_exceptions=True,
            )
            raise ExceptionGroup("both", [each for each in results if isinstance(each, Exception)])

    with pytest.raises(ExceptionGroup):
        await both()
    assert (await loaded(store, "s")).status is StateStatus.FAILED
