"""What others do in the moment before an execution's append, or a caller's cancellation in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import foldlog
from foldlog.recovery import ExecutionPaused, StateStatus
from tests.recovery.build import event, snapshot
from tests.recovery.interleaved import InterleavedLog
from tests.recovery.running import Bus, Steps, history, loaded


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
    with pytest.raises(ExecutionPaused):
        async with store.recovery.execution("s", event_bus=bus) as run:
            await run.ask("approve", "sure?")
    answered: list[bool] = []

    async def answer() -> None:
        answered.append(await other.recovery.answer("s", "approve", "yes"))

    async with store.recovery.execution("s", event_bus=bus) as run:
        log.interleave("step.waiting", answer)
        assert await run.ask("approve", "sure?") == "yes"
    assert answered == [True]
    assert (await loaded(store, "s")).status is StateStatus.COMPLETED
    assert bus.told == [("approve", "awaiting")]


async def test_a_question_that_waits_already_is_not_published_again(store: foldlog.Store) -> None:
    bus = Bus()
    for request in ("sure?", "sure?", "really?"):
        with pytest.raises(ExecutionPaused):
            async with store.recovery.execution("s", event_bus=bus) as run:
                await run.ask("approve", request)
    assert bus.told == [("approve", "awaiting")] * 2


async def test_a_state_that_is_saved_while_it_is_deleted_is_listed(
    log: InterleavedLog, store: foldlog.Store, other: foldlog.Store
) -> None:
    """Else nobody would find it, and what it refers to would be garbage."""
    await store.recovery.save_state(snapshot("s"))
    await store.recovery.artifacts.save_artifact("a", b"x")
    forget = store._core.hot_views.forget

    async def purged_and_saved(*args: Any, **options: Any) -> None:
        await forget(*args, **options)
        await other.recovery.save_state(snapshot("s", event("new"), artifact_refs={"a": "a"}))

    store._core.hot_views.forget = purged_and_saved  # type: ignore[method-assign]
    assert await store.recovery.delete_state("s") is True
    assert history(await loaded(store, "s")) == [("new", "completed")]
    assert [found.state_id for found in await store.recovery.list_states()] == ["s"]
    assert await store.recovery.artifacts.collect_garbage(older_than=0) == ((), 0)


async def test_what_was_deleted_while_it_was_taken_over_does_not_come_back(
    log: InterleavedLog, store: foldlog.Store, other: foldlog.Store
) -> None:
    async with other.recovery.execution("s") as run:
        run.storage["secret"] = 1
        run.metadata.tags.append("old")
    log.interleave("execution.owned", lambda: other.recovery.delete_state("s"))
    async with store.recovery.execution("s") as run:
        assert run.storage == {}
    found = await loaded(store, "s")
    assert (found.execution_state["storage"]["data"], found.metadata.tags) == ({}, [])


async def test_what_is_on_record_as_done_is_not_retracted(
    log: InterleavedLog, store: foldlog.Store, steps: Steps
) -> None:
    """Its own append was stored though no ack came: the log settles it."""
    append = log.append

    async def unheard(*args: object, **options: object) -> list[int]:
        await append(*args, **options)  # type: ignore[arg-type]
        raise foldlog.AppendUnknown([], "no ack came")

    async with store.recovery.execution("s") as run:

        async def pay() -> str:
            log.append = unheard  # type: ignore[method-assign, assignment]
            return "paid"

        assert await run.run("pay", pay) == "paid"
        log.append = append  # type: ignore[method-assign]
        assert run.unknown == ()
        for settle in (run.retract, run.confirm):
            with pytest.raises(foldlog.ConfigurationError, match="not unknown"):
                await settle("pay")
        assert await run.get_event_result("pay") == "paid"
    async with store.recovery.execution("s") as run:
        assert await run.run("pay", steps.giving("pay", "paid again")) == "paid"
    assert steps.called == []


# --- cancellation -------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["step.done", "step.failed"])
async def test_what_has_happened_is_recorded_though_its_caller_is_cancelled(
    log: InterleavedLog, store: foldlog.Store, steps: Steps, outcome: str
) -> None:
    recording, go_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        recording.set()
        await go_on.wait()

    step = steps.giving("pay", 1) if outcome == "step.done" else steps.raising("pay", ValueError())
    log.interleave(outcome, hold)
    async with store.recovery.execution("s") as run:
        running = asyncio.create_task(run.run("pay", step))
        await recording.wait()
        for _ in range(3):
            running.cancel()
            await asyncio.sleep(0)
        assert not running.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert run.unknown == ()
        assert run.has_completed_event("pay") is (outcome == "step.done")
    assert steps.called == ["pay"]


async def test_who_is_cancelled_before_the_effect_has_done_nothing(
    log: InterleavedLog, store: foldlog.Store, steps: Steps
) -> None:
    begun = asyncio.Event()

    async def hold() -> None:
        begun.set()
        await asyncio.Event().wait()

    log.interleave("step.intended", hold)
    async with store.recovery.execution("s") as run:
        running = asyncio.create_task(run.run("pay", steps.giving("pay", 1)))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert steps.called == []
        assert await run.run("pay", steps.giving("pay", 1)) == 1


async def test_steps_beside_one_that_pauses_end_in_a_pause(
    store: foldlog.Store, steps: Steps
) -> None:
    async def agent(run: foldlog.recovery.Execution) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(run.ask("approve"))

    for _ in range(2):
        with pytest.raises(ExceptionGroup) as stopped:
            async with store.recovery.execution("s") as run:
                await run.run("agent", agent, run)
        assert stopped.value.subgroup(ExecutionPaused) is not None
        found = await loaded(store, "s")
        assert found.status is StateStatus.PAUSED
        assert dict(history(found))["agent"] == "retracted"


async def test_a_failure_beside_a_pause_is_a_failure(store: foldlog.Store, steps: Steps) -> None:
    async def both() -> None:
        async with store.recovery.execution("s") as run:
            results = await asyncio.gather(
                run.ask("approve"),
                run.run("pay", steps.raising("pay", ValueError())),
                return_exceptions=True,
            )
            raise ExceptionGroup("both", [each for each in results if isinstance(each, Exception)])

    with pytest.raises(ExceptionGroup):
        await both()
    assert (await loaded(store, "s")).status is StateStatus.FAILED
