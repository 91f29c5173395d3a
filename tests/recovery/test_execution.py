"""Executions, on every backend: write-ahead steps, pauses, checkpoints, events and fencing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import foldlog
from foldlog.recovery import (
    AutoCheckpointConfig,
    EventType,
    ExecutionEvent,
    ExecutionPaused,
    ExecutionStatus,
    ReplayMode,
    ResultMissing,
    StateMetadata,
    StateSnapshot,
    StateStatus,
    StepUnknown,
)
from tests.conftest import OpenStore
from tests.recovery.build import event, snapshot
from tests.support.stores import appended


class Steps:
    """Steps that remember having been called."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def giving(self, name: str, result: Any) -> Callable[[], Awaitable[Any]]:
        async def step() -> Any:
            self.called.append(name)
            return result

        return step

    def raising(self, name: str, error: BaseException) -> Callable[[], Awaitable[Any]]:
        async def step() -> Any:
            self.called.append(name)
            raise error

        return step


class Bus:
    """An event bus that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[ExecutionEvent] = []

    async def publish(self, told: ExecutionEvent) -> None:
        self.heard.append(told)

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(each.address, each.execution_status.value) for each in self.heard]


@pytest.fixture
def steps() -> Steps:
    return Steps()


async def loaded(store: foldlog.Store, state_id: str) -> StateSnapshot:
    found = await store.recovery.load_state(state_id)
    assert found is not None
    return found


def history(found: StateSnapshot) -> list[tuple[str, str]]:
    """A snapshot's events as address and status."""
    events = found.execution_state["history"]["events"]
    return [(each["address"], each["execution_status"]) for each in events]


async def stopped_within(store: foldlog.Store, state_id: str, address: str) -> None:
    """Leave a step begun and not ended, as a process does that dies in it."""
    with pytest.raises(asyncio.CancelledError):
        async with store.recovery.execution(state_id) as run:
            await run.run(address, Steps().raising(address, asyncio.CancelledError()))


# --- steps --------------------------------------------------------------------------------------


async def test_a_step_is_done_once_and_its_result_is_on_record(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    result = {"flights": [1, (2, b"x")]}
    async with store.recovery.execution("s") as run:
        assert await run.run("search", steps.giving("search", result)) == result
        assert await run.run("search", steps.giving("again", None)) == result
    async with (await reopen()).recovery.execution("s") as resumed:
        assert resumed.should_skip("search")
        assert resumed.has_completed_event("search")
        assert await resumed.get_event_result("search") == result
        assert await resumed.run("search", steps.giving("later", None)) == result
        assert not resumed.should_skip("book")
        assert await resumed.get_event_result("book") is None
        await resumed.run("book", steps.giving("book", "ok"))
    assert steps.called == ["search", "book"]
    found = await loaded(store, "s")
    assert found.status is StateStatus.COMPLETED
    assert history(found) == [("search", "completed"), ("book", "completed")]
    assert found.execution_state["history"]["events"][0]["result"] == result


async def test_a_step_is_on_record_as_intended_before_its_effect(store: foldlog.Store) -> None:
    async def look() -> list[tuple[str, str]]:
        return history(await loaded(store, "s"))

    async with store.recovery.execution("s") as run:
        assert await run.run("look", look) == [("look", "started")]


async def test_a_step_that_failed_is_done_again(store: foldlog.Store, steps: Steps) -> None:
    async def sold_out() -> None:
        async with store.recovery.execution("s") as run:
            await run.run("search", steps.giving("search", 1))
            await run.run("book", steps.raising("book", ValueError("sold out")))

    with pytest.raises(ValueError, match="sold out"):
        await sold_out()
    failed = await loaded(store, "s")
    assert failed.status is StateStatus.FAILED
    assert history(failed) == [("search", "completed"), ("book", "failed")]
    assert failed.execution_state["history"]["events"][1]["error"] == "ValueError"
    assert failed.execution_state["history"]["events"][1]["message"] == "sold out"

    async with store.recovery.execution("s") as run:
        await run.run("search", steps.giving("search", 1))
        assert await run.run("book", steps.giving("book again", 2)) == 2
    assert steps.called == ["search", "book", "book again"]
    retried = await loaded(store, "s")
    assert retried.status is StateStatus.COMPLETED
    assert retried.execution_state["history"]["events"][1]["attempt"] == 2


async def test_a_step_that_was_cut_short_is_unknown_until_somebody_says(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    await stopped_within(store, "s", "pay")
    assert (await loaded(store, "s")).status is StateStatus.RUNNING
    execution = (await reopen()).recovery.execution("s")

    async def pay() -> None:
        async with execution as run:
            assert run.unknown == ("pay",)
            await run.run("pay", steps.giving("pay", "paid"))

    with pytest.raises(StepUnknown) as unknown:
        await pay()
    assert (unknown.value.state_id, unknown.value.address) == ("s", "pay")
    assert unknown.value.attempt == 1
    assert steps.called == []

    async with store.recovery.execution("s") as run:
        await run.confirm("pay", "receipt 7")
        assert run.unknown == ()
        assert await run.run("pay", steps.giving("pay", "paid")) == "receipt 7"
        with pytest.raises(foldlog.ConfigurationError):
            await run.retract("pay")
    assert steps.called == []


async def test_a_step_that_did_not_happen_is_done_after_all(
    store: foldlog.Store, steps: Steps
) -> None:
    await stopped_within(store, "s", "pay")
    async with store.recovery.execution("s") as run:
        await run.retract("pay")
        assert await run.run("pay", steps.giving("pay", "paid")) == "paid"
    assert steps.called == ["pay"]


async def test_a_repeatable_step_is_repeated(store: foldlog.Store, steps: Steps) -> None:
    await stopped_within(store, "s", "search")
    async with store.recovery.execution("s") as run:
        found = await run.run("search", steps.giving("search", 1), repeatable=True)
    assert (found, steps.called) == (1, ["search"])


async def test_steps_take_arguments_and_run_side_by_side(store: foldlog.Store) -> None:
    meeting = asyncio.Barrier(4)

    async def double(number: int, of: str) -> str:
        await meeting.wait()
        return f"{of}{number * 2}"

    async with store.recovery.execution("s") as run:
        given = await asyncio.gather(
            *(run.run(f"double::{n}", double, n, "x", event_type=EventType.TOOL) for n in range(4))
        )
    assert given == ["x0", "x2", "x4", "x6"]
    found = await loaded(store, "s")
    assert sorted(history(found)) == [(f"double::{n}", "completed") for n in range(4)]
    assert found.execution_state["history"]["events"][0]["event_type"] == "tool"


async def test_an_address_names_one_step_at_a_time(store: foldlog.Store) -> None:
    begun, end = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        await end.wait()

    async with store.recovery.execution("s") as run:
        first = asyncio.create_task(run.run("a", slow))
        await begun.wait()
        assert run.unknown == ()
        with pytest.raises(foldlog.ConfigurationError, match="under way"):
            await run.run("a", slow)
        end.set()
        await first
    with pytest.raises(foldlog.InvalidId):
        await run.run("", slow)


async def test_a_result_that_cannot_be_held_leaves_the_outcome_unknown(
    store: foldlog.Store, steps: Steps
) -> None:
    with pytest.raises(foldlog.PayloadError):
        async with store.recovery.execution("s") as run:
            await run.run("a", steps.giving("a", object()))
    async with store.recovery.execution("s") as run:
        assert run.unknown == ("a",)


async def test_an_execution_is_entered_once(store: foldlog.Store) -> None:
    run = store.recovery.execution("s")
    async with run:
        pass
    with pytest.raises(foldlog.ConfigurationError):
        await run.__aenter__()


async def test_a_state_with_a_history_of_its_own_is_left_alone(store: foldlog.Store) -> None:
    await store.recovery.save_state(snapshot("theirs", event("a")))
    with pytest.raises(foldlog.ConfigurationError):
        await store.recovery.execution("theirs").__aenter__()
    assert await loaded(store, "theirs") == snapshot("theirs", event("a"))


# --- from an address ----------------------------------------------------------------------------


async def pipeline(run: Any, steps: Steps, *names: str) -> None:
    for name in names:
        await run.run(name, steps.giving(name, f"{name} {len(steps.called)}"))


async def test_an_execution_is_done_again_from_an_address(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    async with store.recovery.execution("s") as run:
        await pipeline(run, steps, "a", "b", "c", "d")
    other = await reopen()
    async with other.recovery.execution("s", resume_from_address="c") as run:
        assert [run.should_skip(name) for name in "abcd"] == [True, True, False, False]
        await pipeline(run, steps, "a", "b", "c")
    async with store.recovery.execution("s") as run:
        await pipeline(run, steps, "a", "b", "c", "d")
    assert steps.called == ["a", "b", "c", "d", "c", "d"]
    events = (await loaded(store, "s")).execution_state["history"]["events"]
    assert [each["result"] for each in events] == ["a 0", "b 1", "c 4", "d 5"]


async def test_an_address_that_is_not_on_record_is_refused(store: foldlog.Store) -> None:
    async with store.recovery.execution("s"):
        pass
    before = await appended(store)
    with pytest.raises(foldlog.ConfigurationError, match="typo"):
        await store.recovery.execution("s", resume_from_address="typo").__aenter__()
    assert await appended(store) == before


# --- pausing ------------------------------------------------------------------------------------


async def booking(store: foldlog.Store, steps: Steps, **options: Any) -> Any:
    async with store.recovery.execution("s", **options) as run:
        await run.run("search", steps.giving("search", "flight 7"))
        run.storage["seen"] = True
        answer = await run.ask("approve", {"question": "flight 7?"})
        return await run.run("book", steps.giving("book", answer))


async def test_an_execution_pauses_for_the_user_and_goes_on_elsewhere(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    with pytest.raises(ExecutionPaused) as paused:
        await booking(store, steps)
    assert (paused.value.state_id, paused.value.address) == ("s", "approve")
    assert paused.value.request == {"question": "flight 7?"}
    other = await reopen()
    [waiting] = await other.recovery.list_states(status=StateStatus.PAUSED)
    assert history(waiting) == [("search", "completed"), ("approve", "awaiting")]
    assert waiting.execution_state["history"]["events"][1]["request"] == {"question": "flight 7?"}
    assert waiting.execution_state["storage"]["data"] == {"seen": True}

    with pytest.raises(ExecutionPaused):
        await booking(other, steps)
    assert (await loaded(store, "s")).status is StateStatus.PAUSED
    assert await other.recovery.answer("s", "approve", {"yes": 1}) is True
    assert await store.recovery.answer("s", "approve", {"no": 1}) is False
    assert await booking(other, steps) == {"yes": 1}
    assert steps.called == ["search", "book"]
    assert (await loaded(store, "s")).status is StateStatus.COMPLETED


async def test_of_many_answers_one_stands(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    with pytest.raises(ExecutionPaused):
        await booking(store, steps)
    other = await reopen()
    accepted = await asyncio.gather(
        *((store if n % 2 else other).recovery.answer("s", "approve", n) for n in range(6))
    )
    assert sum(accepted) == 1
    assert await booking(store, steps) == accepted.index(True)


async def test_nobody_answers_what_was_not_asked(store: foldlog.Store) -> None:
    assert await store.recovery.answer("unknown", "a", 1) is False
    async with store.recovery.execution("s") as run:
        await run.run("a", Steps().giving("a", 1))
        assert await store.recovery.answer("s", "a", 2) is False
        assert await run.get_event_result("a") == 1


async def test_an_answer_that_comes_while_it_still_runs_is_found(
    store: foldlog.Store, steps: Steps
) -> None:
    async with store.recovery.execution("s") as run:
        with pytest.raises(ExecutionPaused):
            await run.ask("approve")
        await store.recovery.answer("s", "approve", "yes")
        assert await run.ask("approve") == "yes"
        await run.run("book", steps.giving("book", 1))
    assert steps.called == ["book"]


async def test_a_step_that_pauses_within_is_entered_again(
    store: foldlog.Store, steps: Steps
) -> None:
    async def agent(run: Any) -> str:
        await run.run("agent::search", steps.giving("search", 1))
        return f"answered {await run.ask('agent::approve')}"

    with pytest.raises(ExecutionPaused):
        async with store.recovery.execution("s") as run:
            await run.run("agent", agent, run, event_type=EventType.AGENT)
    assert history(await loaded(store, "s")) == [
        ("agent", "retracted"),
        ("agent::search", "completed"),
        ("agent::approve", "awaiting"),
    ]
    await store.recovery.answer("s", "agent::approve", "yes")
    async with store.recovery.execution("s") as run:
        assert run.unknown == ()
        assert await run.run("agent", agent, run) == "answered yes"
    assert steps.called == ["search"]


# --- checkpoints --------------------------------------------------------------------------------


async def test_storage_and_metadata_are_saved_with_a_checkpoint(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    metadata = StateMetadata(tags=["vip"], pipeline_name="booking", parent_state_id="p")
    async with store.recovery.execution("s", metadata=metadata, version="1.2.0") as run:
        assert (await loaded(store, "s")).metadata == metadata
        run.storage["n"] = 1
        await run.checkpoint()
        run.metadata.tags.append("urgent")
        found = await loaded(store, "s")
        assert found.execution_state["storage"]["data"] == {"n": 1}
        assert found.status is StateStatus.RUNNING
    other = await reopen()
    async with other.recovery.execution("s") as run:
        assert run.storage == {"n": 1}
        assert run.metadata.tags == ["vip", "urgent"]
    [found] = await other.recovery.list_states(tags=["urgent"], parent_state_id="p")
    assert (found.version, found.metadata.pipeline_name) == ("1.2.0", "booking")
    assert found.updated_at > found.created_at


AUTO = AutoCheckpointConfig(enabled=True, checkpoint_after_events=["review"])


@pytest.mark.parametrize(
    ("event_type", "artifact", "saved"),
    [
        (EventType.LLM, False, True),
        (EventType.TOOL, False, True),
        ("review", False, True),
        (EventType.STEP, True, True),
        (EventType.STEP, False, False),
    ],
)
async def test_checkpoints_come_by_themselves_after_some_steps(
    store: foldlog.Store, steps: Steps, event_type: str, artifact: bool, saved: bool
) -> None:
    async with store.recovery.execution("s", auto_checkpoint_config=AUTO) as run:
        run.storage["n"] = 1
        await run.run("a", steps.giving("a", 1), event_type=event_type, artifact=artifact)
        data = (await loaded(store, "s")).execution_state["storage"]["data"]
        assert data == ({"n": 1} if saved else {})


async def test_a_checkpoint_repeats_nothing_of_the_history(
    store: foldlog.Store, steps: Steps
) -> None:
    async def stored() -> int:
        return sum(stream.bytes for stream in (await store.health()).streams)

    async with store.recovery.execution("s", auto_checkpoint_config=AUTO) as run:
        before = await stored()
        for n in range(60):
            run.storage["n"] = n
            await run.run(f"{n}", steps.giving("", "x" * 1000), event_type=EventType.LLM)
        assert await stored() - before < 2.5 * 60 * 1000


async def test_what_others_save_meanwhile_does_not_disturb_an_execution(
    store: foldlog.Store, steps: Steps
) -> None:
    async with store.recovery.execution("s") as run:
        await run.run("a", steps.giving("a", 1))
        described = await loaded(store, "s")
        described.execution_state["history"] = {"events": []}
        described.metadata.description = "theirs"
        await store.recovery.update_state(described)
        assert history(await loaded(store, "s")) == [("a", "completed")]
        await run.run("b", steps.giving("b", 2))
    assert history(await loaded(store, "s")) == [("a", "completed"), ("b", "completed")]


async def test_what_others_save_of_an_execution_repeats_nothing_of_its_steps(
    store: foldlog.Store, steps: Steps
) -> None:
    async with store.recovery.execution("s") as run:
        await run.run("a", steps.giving("a", "x" * 100_000))
        await run.run("b", steps.giving("b", b"y"), artifact=True)
        found = await loaded(store, "s")
        found.metadata.description = "theirs"
        before = sum(stream.bytes for stream in (await store.health()).streams)
        await store.recovery.update_state(found)
        after = sum(stream.bytes for stream in (await store.health()).streams)
        assert after - before < 1000
    async with store.recovery.execution("s", resume_from_address="b"):
        pass
    void = found.artifact_refs["b"]
    assert (await store.recovery.artifacts.collect_garbage(older_than=0)).artifact_ids == (void,)


# --- artifacts ----------------------------------------------------------------------------------


async def test_a_large_result_is_restored_and_not_computed_again(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    large = b"x" * 400_000
    async with store.recovery.execution("s") as run:
        await run.run("small", steps.giving("small", b"y"), artifact=True)
        await run.run("large", steps.giving("large", large))
        named = await run.put_artifact("map", {"rows": [1]})
    other = await reopen()
    async with other.recovery.execution("s") as run:
        assert await run.run("small", steps.giving("again", b"")) == b"y"
        assert await run.run("large", steps.giving("again", b"")) == large
        assert await run.get_artifact("map") == {"rows": [1]}
        assert await run.get_artifact("other") is None
    assert steps.called == ["small", "large"]
    refs = (await loaded(store, "s")).artifact_refs
    assert set(refs) == {"small", "large", "map"}
    assert refs["map"] == named
    assert await other.recovery.artifacts.load_artifact(refs["large"]) == large
    assert (await other.recovery.artifacts.collect_garbage(older_than=0)).artifact_ids == ()


async def test_what_steps_gave_that_are_void_is_garbage(store: foldlog.Store, steps: Steps) -> None:
    async with store.recovery.execution("s") as run:
        await run.run("a", steps.giving("a", b"one"), artifact=True)
        await run.run("b", steps.giving("b", b"two"), artifact=True)
    void = (await loaded(store, "s")).artifact_refs["b"]
    async with store.recovery.execution("s", resume_from_address="b"):
        pass
    assert (await store.recovery.artifacts.collect_garbage(older_than=0)).artifact_ids == (void,)


async def test_a_result_that_was_deleted_is_missing_and_not_none(
    store: foldlog.Store, steps: Steps
) -> None:
    async with store.recovery.execution("s") as run:
        await run.run("nothing", steps.giving("nothing", None), artifact=True)
        await run.run("a", steps.giving("a", b"x"), artifact=True)
        assert await run.get_event_result("nothing") is None
        await store.recovery.artifacts.delete_artifact(
            (await loaded(store, "s")).artifact_refs["a"]
        )
        with pytest.raises(ResultMissing):
            await run.run("a", steps.giving("a", b"x"))


async def test_an_execution_may_keep_objects_as_pickles(store: foldlog.Store, steps: Steps) -> None:
    pickles = store.recovery.artifacts.with_codec("pickle")
    given = StateMetadata(tags=["an object"])
    for _ in range(2):
        async with store.recovery.execution("s", artifacts=pickles) as run:
            assert await run.run("a", steps.giving("a", given), artifact=True) == given
    assert steps.called == ["a"]


# --- events -------------------------------------------------------------------------------------


async def test_replay_publishes_nothing_twice(store: foldlog.Store, steps: Steps) -> None:
    first, second, third = Bus(), Bus(), Bus()
    with pytest.raises(ExecutionPaused):
        await booking(store, steps, event_bus=first)
    assert first.told == [
        ("search", "started"),
        ("search", "completed"),
        ("approve", "awaiting"),
    ]
    await store.recovery.answer("s", "approve", "yes")
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
        async with store.recovery.execution("s", event_bus=Plain()) as run:
            await run.run("a", steps.raising("a", ValueError("no")))
    assert [told.execution_status for told in heard] == [
        ExecutionStatus.STARTED,
        ExecutionStatus.FAILED,
    ]
    assert heard[1].message == "no"


# --- validation ---------------------------------------------------------------------------------


async def test_a_validation_finds_what_differs_field_by_field(
    store: foldlog.Store, steps: Steps
) -> None:
    recorded = {"fare": 100, "stops": [1, 2], "same": {"x": (1,)}}
    async with store.recovery.execution("s") as run:
        await run.run("search", steps.giving("search", recorded))
        await run.run("plan", steps.giving("plan", "fly"))
        await run.run("book", steps.giving("book", 1))
    before = await appended(store)
    bus = Bus()
    async with store.recovery.execution(
        "s", replay_mode=ReplayMode.VALIDATION, event_bus=bus
    ) as run:
        actual = {"fare": 100.0, "stops": [1], "same": {"x": (1,)}, "new": None}
        assert not run.should_skip("search")
        assert await run.run("search", steps.giving("search again", actual)) == actual
        await run.run("plan", steps.giving("plan again", "fly"))
        await run.run("extra", steps.giving("extra", 1))
        await run.put_artifact("map", b"x")
        await run.checkpoint()
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
    async with store.recovery.execution("s") as run:
        await run.run("ok", steps.giving("ok", 1))
        with pytest.raises(ValueError, match="x"):
            await run.run("bad", steps.raising("bad", ValueError("x")))
    async with store.recovery.execution("s", replay_mode=ReplayMode.VALIDATION) as run:
        await run.run("bad", steps.giving("bad", 1))
        with pytest.raises(KeyError):
            await run.run("ok", steps.raising("ok", KeyError("k")))
    assert [
        (m.address, m.path, str(m.recorded), str(m.actual)) for m in run.validation.mismatches
    ] == [
        ("bad", "error", "ValueError: x", "ABSENT"),
        ("ok", "error", "ABSENT", "KeyError: 'k'"),
    ]


async def test_a_deterministic_execution_validates(store: foldlog.Store, steps: Steps) -> None:
    with pytest.raises(ExecutionPaused):
        await booking(store, steps)
    await store.recovery.answer("s", "approve", "yes")
    await booking(store, steps)
    validated = store.recovery.execution("s", replay_mode=ReplayMode.VALIDATION)
    async with validated as run:
        await run.run("search", steps.giving("search", "flight 7"))
        await run.run("book", steps.giving("book", await run.ask("approve")))
    assert run.validation.mismatches == ()
    assert run.validation.unexpected == ()


async def test_what_never_ran_cannot_be_validated(store: foldlog.Store) -> None:
    await store.recovery.save_state(snapshot("saved"))
    for state_id in ("unknown", "saved"):
        with pytest.raises(foldlog.ConfigurationError):
            await store.recovery.execution(state_id, replay_mode=ReplayMode.VALIDATION).__aenter__()
    with pytest.raises(foldlog.ConfigurationError):
        store.recovery.execution("s", replay_mode=ReplayMode.VALIDATION, resume_from_address="a")


# --- owners -------------------------------------------------------------------------------------


async def test_who_was_taken_over_appends_nothing_any_more(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    other = await reopen()
    first = store.recovery.execution("s")
    await first.__aenter__()
    await first.run("a", steps.giving("a", 1))
    async with other.recovery.execution("s") as second:
        before = await appended(store)
        with pytest.raises(foldlog.AppendConflict):
            await first.run("b", steps.giving("b by the first", 2))
        with pytest.raises(foldlog.AppendConflict):
            await first.checkpoint()
        with pytest.raises(foldlog.AppendConflict):
            await first.ask("c")
        assert await appended(store) == before
        assert await second.run("b", steps.giving("b by the second", 3)) == 3
    with pytest.raises(foldlog.AppendConflict):
        await first.__aexit__(None, None, None)
    assert steps.called == ["a", "b by the second"]
    assert history(await loaded(store, "s")) == [("a", "completed"), ("b", "completed")]


async def test_a_step_under_way_when_it_is_taken_over_is_unknown_to_the_new_owner(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    other = await reopen()

    async def taken_over() -> str:
        async with other.recovery.execution("s") as second:
            assert second.unknown == ("pay",)
        return "paid"

    with pytest.raises(foldlog.AppendConflict):
        async with store.recovery.execution("s") as first:
            await first.run("pay", taken_over)
    assert history(await loaded(store, "s")) == [("pay", "started")]


async def test_one_of_two_who_take_over_at_once_ends_up_with_it(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    other = await reopen()
    runs = [store.recovery.execution("s"), other.recovery.execution("s")]
    await asyncio.gather(*(run.__aenter__() for run in runs))
    outcomes = await asyncio.gather(
        *(run.run("a", steps.giving("a", 1)) for run in runs), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["AppendConflict", "int"]
    assert steps.called == ["a"]


async def test_an_execution_whose_state_was_deleted_does_not_bring_it_back(
    store: foldlog.Store, steps: Steps
) -> None:
    run = await store.recovery.execution("s").__aenter__()
    await run.run("a", steps.giving("a", 1))
    await store.recovery.delete_state("s")
    with pytest.raises(foldlog.AppendConflict):
        await run.run("b", steps.giving("b", 1))
    with pytest.raises(foldlog.AppendConflict):
        await run.__aexit__(None, None, None)
    assert await store.recovery.load_state("s") is None
    assert steps.called == ["a"]


async def test_an_execution_that_began_anew_has_another_owner(
    store: foldlog.Store, steps: Steps
) -> None:
    first = store.recovery.execution("s")
    await first.__aenter__()
    await store.recovery.delete_state("s")
    async with store.recovery.execution("s") as second:
        with pytest.raises(foldlog.AppendConflict):
            await first.run("a", steps.giving("a", 1))
        await second.run("a", steps.giving("a", 2))
    assert steps.called == ["a"]


# --- versions -----------------------------------------------------------------------------------


async def test_an_execution_goes_on_at_todays_version(store: foldlog.Store) -> None:
    from foldlog.recovery import Migrations

    async with store.recovery.execution("s") as run:
        run.storage["seat"] = "12A"
    migrations = Migrations("1.1.0")

    @migrations.step("1.0.0", "1.1.0")
    def rename(old: StateSnapshot) -> StateSnapshot:
        data = old.execution_state["storage"]["data"]
        data["seat_number"] = data.pop("seat")
        return old

    async with store.recovery.with_migrations(migrations).execution("s") as run:
        assert run.storage == {"seat_number": "12A"}
    found = await loaded(store, "s")
    assert (found.version, found.execution_state["storage"]["data"]) == (
        "1.1.0",
        {"seat_number": "12A"},
    )
