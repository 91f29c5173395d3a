"""What becomes of steps on record when they are run again, on every backend."""

from __future__ import annotations

import asyncio

import pytest

import foldlog
from foldlog.errors import Misuse
from foldlog.integrations.rh_agents import (
    ExecutionEvent,
    ExecutionStatus,
    ReplayMode,
    StateBackend,
    StateStatus,
)
from foldlog.runs import RunPaused
from tests.conftest import OpenStore
from tests.integrations.rh_agents.build import snapshot
from tests.integrations.rh_agents.running import Bus, Steps, answered, booking, loaded, pipeline
from tests.support.stores import appended

# --- from an address ------------------------------------------------------------------------------


async def test_an_execution_is_done_again_from_an_address(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    async with StateBackend(store).execution("s") as run:
        await pipeline(run, steps, "a", "b", "c", "d")
    other = await reopen()
    async with StateBackend(other).execution("s", resume_from_address="c") as run:
        assert [run.should_skip_event(name) for name in "abcd"] == [True, True, False, False]
        await pipeline(run, steps, "a", "b", "c")
    async with StateBackend(store).execution("s") as run:
        await pipeline(run, steps, "a", "b", "c", "d")
    assert steps.called == ["a", "b", "c", "d", "c", "d"]
    events = (await loaded(store, "s")).execution_state["history"]["events"]
    assert [each["result"] for each in events] == ["a 0", "b 1", "c 4", "d 5"]


async def test_who_died_before_the_address_was_reached_asks_for_it_again(
    store: foldlog.Store, steps: Steps
) -> None:
    async with StateBackend(store).execution("s") as run:
        await pipeline(run, steps, "a", "b", "c")
    for _ in range(2):
        with pytest.raises(asyncio.CancelledError):
            async with StateBackend(store).execution("s", resume_from_address="b"):
                raise asyncio.CancelledError
    with pytest.raises(foldlog.NotFound):
        await StateBackend(store).execution("s", resume_from_address="c").__aenter__()
    with pytest.raises(foldlog.NotFound):
        await StateBackend(store).execution("new", resume_from_address="").__aenter__()
    async with StateBackend(store).execution("s", resume_from_address="b") as run:
        await pipeline(run, steps, "a", "b", "c")
    assert steps.called == ["a", "b", "c", "b", "c"]


async def test_an_address_that_is_not_on_record_is_refused(store: foldlog.Store) -> None:
    async with StateBackend(store).execution("s"):
        pass
    before = await loaded(store, "s")
    with pytest.raises(foldlog.NotFound, match="typo"):
        await StateBackend(store).execution("s", resume_from_address="typo").__aenter__()
    assert await loaded(store, "s") == before


# --- events ---------------------------------------------------------------------------------------


async def test_replay_publishes_nothing_twice(store: foldlog.Store, steps: Steps) -> None:
    first, second, third = Bus(), Bus(), Bus()
    with pytest.raises(RunPaused):
        await booking(store, steps, event_bus=first)
    assert first.told == [
        ("search", "started"),
        ("search", "completed"),
        ("approve", "awaiting"),
    ]
    await answered(store, "yes")
    await booking(store, steps, event_bus=second)
    assert second.told == [("book", "started"), ("book", "completed")]
    await booking(store, steps, event_bus=third, replay_mode=ReplayMode.REPUBLISH_ALL)
    assert third.told == [(name, "recovered") for name in ("search", "approve", "book")]
    assert all(told.is_replayed for told in third.heard)
    assert [told.result for told in third.heard] == ["flight 7", "yes", "yes"]
    assert steps.called == ["search", "book"]


async def test_a_bus_may_be_plain_and_hears_of_failures(store: foldlog.Store, steps: Steps) -> None:
    heard: list[ExecutionEvent] = []

    class Plain:
        def publish(self, told: ExecutionEvent) -> None:
            heard.append(told)

    with pytest.raises(ValueError, match="no"):
        async with StateBackend(store).execution("s", event_bus=Plain()) as run:
            await run.step("a", steps.raising("a", ValueError("no")))
    assert [told.execution_status for told in heard] == [
        ExecutionStatus.STARTED,
        ExecutionStatus.FAILED,
    ]
    assert heard[1].message == "no"


# --- validation -----------------------------------------------------------------------------------


async def test_a_validation_finds_what_differs_field_by_field(
    store: foldlog.Store, steps: Steps
) -> None:
    recorded = {"fare": 100, "stops": [1, 2], "same": {"x": (1,)}}
    async with StateBackend(store).execution("s") as run:
        await run.step("search", steps.giving("search", recorded))
        await run.step("plan", steps.giving("plan", "fly"))
        await run.step("book", steps.giving("book", 1))
    before = await appended(store)
    bus = Bus()
    async with StateBackend(store).execution(
        "s", replay_mode=ReplayMode.VALIDATION, event_bus=bus
    ) as run:
        actual = {"fare": 100.0, "stops": [1], "same": {"x": (1,)}, "new": None}
        assert not run.should_skip_event("search")
        assert await run.step("search", steps.giving("search again", actual)) == actual
        await run.step("plan", steps.giving("plan again", "fly"))
        await run.step("extra", steps.giving("extra", 1))
        await run.put_artifact("map", b"x")
        await run.save_checkpoint()
        found = run.validation
    assert steps.called[3:] == ["search again", "plan again", "extra"]
    assert (found.compared, found.unexpected, found.missing) == (2, ("extra",), ("book",))
    assert [(m.address, m.path, m.recorded, repr(m.actual)) for m in found.mismatches] == [
        ("search", "result.fare", 100, "100.0"),
        ("search", "result.stops[1]", 2, "ABSENT"),
        ("search", "result.new", found.mismatches[2].recorded, "None"),
    ]
    assert bus.heard == []
    assert await appended(store) == before
    assert (await loaded(store, "s")).status is StateStatus.COMPLETED


async def test_a_validation_compares_failures(store: foldlog.Store, steps: Steps) -> None:
    async with StateBackend(store).execution("s") as run:
        await run.step("ok", steps.giving("ok", 1))
        with pytest.raises(ValueError, match="x"):
            await run.step("bad", steps.raising("bad", ValueError("x")))
    async with StateBackend(store).execution("s", replay_mode=ReplayMode.VALIDATION) as run:
        await run.step("bad", steps.giving("bad", 1))
        with pytest.raises(KeyError):
            await run.step("ok", steps.raising("ok", KeyError("k")))
    assert [
        (m.address, m.path, str(m.recorded), str(m.actual)) for m in run.validation.mismatches
    ] == [
        ("bad", "error", "ValueError: x", "ABSENT"),
        ("ok", "error", "ABSENT", "KeyError: 'k'"),
    ]


async def test_a_deterministic_execution_validates(store: foldlog.Store, steps: Steps) -> None:
    with pytest.raises(RunPaused):
        await booking(store, steps)
    await answered(store, "yes")
    await booking(store, steps)
    validated = StateBackend(store).execution("s", replay_mode=ReplayMode.VALIDATION)
    async with validated as run:
        await run.step("search", steps.giving("search", "flight 7"))
        await run.step("book", steps.giving("book", await run.ask("approve")))
    assert run.validation.mismatches == ()
    assert run.validation.unexpected == ()


async def test_what_never_ran_cannot_be_validated(store: foldlog.Store) -> None:
    await StateBackend(store).save_state(snapshot("saved"))
    for state_id in ("unknown", "saved"):
        with pytest.raises(Misuse):
            await (
                StateBackend(store)
                .execution(state_id, replay_mode=ReplayMode.VALIDATION)
                .__aenter__()
            )
    with pytest.raises(Misuse):
        StateBackend(store).execution(
            "s", replay_mode=ReplayMode.VALIDATION, resume_from_address="a"
        )
