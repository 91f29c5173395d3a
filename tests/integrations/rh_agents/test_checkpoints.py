"""What an execution saves beside its steps, on every backend."""

from __future__ import annotations

import pytest

import foldlog
from foldlog.integrations.rh_agents import (
    AutoCheckpointConfig,
    EventType,
    Execution,
    Migrations,
    ReplayMode,
    StateBackend,
    StateMetadata,
    StateSnapshot,
    StateStatus,
)
from foldlog.runs import ResultMissing
from tests.conftest import OpenStore
from tests.integrations.rh_agents.running import Steps, history, loaded
from tests.support.stores import appended

# --- checkpoints ----------------------------------------------------------------------------------


async def test_storage_and_metadata_are_saved_with_a_checkpoint(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    metadata = StateMetadata(tags=["vip"], pipeline_name="booking", parent_state_id="p")
    async with StateBackend(store).execution("s", metadata=metadata, version="1.2.0") as run:
        assert (await loaded(store, "s")).metadata == metadata
        run.storage["n"] = 1
        await run.save_checkpoint()
        run.metadata.tags.append("urgent")
        found = await loaded(store, "s")
        assert found.execution_state["storage"]["data"] == {"n": 1}
        assert found.status is StateStatus.RUNNING
    other = await reopen()
    async with StateBackend(other).execution("s") as run:
        assert run.storage == {"n": 1}
        assert run.metadata.tags == ["vip", "urgent"]
    [found] = await StateBackend(other).list_states(tags=["urgent"], parent_state_id="p")
    assert (found.version, found.metadata.pipeline_name) == ("1.2.0", "booking")
    assert found.updated_at > found.created_at


async def test_a_checkpoint_may_say_how_it_stands_and_what_it_is_found_by(
    store: foldlog.Store, steps: Steps
) -> None:
    async with StateBackend(store).execution("s", metadata=StateMetadata(tags=["new"])) as run:
        await run.step("a", steps.giving("a", 1))
        found_by = StateMetadata(tags=["vip"], pipeline_name="booking")
        assert await run.save_checkpoint(StateStatus.PAUSED, found_by) is True
        found_by.tags.append("the caller's own")
        [paused] = await StateBackend(store).list_states(tags=["vip"], status=StateStatus.PAUSED)
        assert paused.metadata == StateMetadata(tags=["vip"], pipeline_name="booking")
        taken = run.to_snapshot(StateStatus.PAUSED)
        assert taken == paused
        taken.execution_state["storage"]["data"]["n"] = 1
        assert run.storage == {}
        assert run.to_snapshot(metadata=StateMetadata(tags=["x"])).metadata.tags == ["x"]


async def test_an_execution_is_loaded_by_its_state_id(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    load = Execution.load_from_state_id
    assert await load("s", StateBackend(store)) is None
    async with StateBackend(store).execution("s") as run:
        await run.step("a", steps.giving("a", 1))
        await run.step("b", steps.giving("b", 1))
    other = StateBackend(await reopen())
    resumed = await load("s", other, other.artifacts, resume_from_address="b")
    assert resumed is not None
    async with resumed as run:
        assert [run.should_skip_event(each) for each in "ab"] == [True, False]


async def test_an_execution_goes_on_from_a_snapshot(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    async with StateBackend(store).execution("s") as run:
        run.storage["seat"] = "12A"
        await run.step("a", steps.giving("a", 1))
        earlier = run.to_snapshot()
        run.storage["seat"] = "14C"
        await run.step("b", steps.giving("b", 1))
    other = StateBackend(await reopen())
    async with await Execution.from_snapshot(earlier, other, resume_from_address="b") as run:
        assert run.storage == {"seat": "12A"}
        assert [run.should_skip_event(each) for each in "ab"] == [True, False]
    before = await appended(store)
    validation = ReplayMode.VALIDATION
    async with await Execution.from_snapshot(earlier, other, replay_mode=validation) as run:
        assert run.storage == {"seat": "12A"}
    assert await appended(store) == before


async def test_the_history_of_an_execution_is_its_steps(store: foldlog.Store) -> None:
    async with StateBackend(store).execution("r") as run:
        await run.step("a", Steps().giving("a", 1))
        with pytest.raises(LookupError):
            await run.step("b", Steps().raising("b", LookupError("no b")))
        found = run.to_snapshot().execution_state["history"]["events"]
    assert found == (await loaded(store, "r")).execution_state["history"]["events"]
    assert [(e["address"], e["execution_status"]) for e in found] == [
        ("a", "completed"),
        ("b", "failed"),
    ]


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
    async with StateBackend(store).execution("s", auto_checkpoint_config=AUTO) as run:
        run.storage["n"] = 1
        await run.step("a", steps.giving("a", 1), event_type=event_type, artifact=artifact)
        data = (await loaded(store, "s")).execution_state["storage"]["data"]
        assert data == ({"n": 1} if saved else {})


async def test_a_checkpoint_repeats_nothing_of_the_history(
    store: foldlog.Store, steps: Steps
) -> None:
    async def stored() -> int:
        return sum(stream.bytes for stream in (await store.health()).streams)

    async with StateBackend(store).execution("s", auto_checkpoint_config=AUTO) as run:
        before = await stored()
        for n in range(60):
            run.storage["n"] = n
            await run.step(f"{n}", steps.giving("", "x" * 1000), event_type=EventType.LLM)
        assert await stored() - before < 2.5 * 60 * 1000


async def test_what_others_save_meanwhile_does_not_disturb_an_execution(
    store: foldlog.Store, steps: Steps
) -> None:
    async with StateBackend(store).execution("s") as run:
        await run.step("a", steps.giving("a", 1))
        described = await loaded(store, "s")
        described.execution_state["history"] = {"events": []}
        described.metadata.description = "theirs"
        await StateBackend(store).update_state(described)
        assert history(await loaded(store, "s")) == [("a", "completed")]
        await run.step("b", steps.giving("b", 2))
    assert history(await loaded(store, "s")) == [("a", "completed"), ("b", "completed")]


async def test_what_others_save_of_an_execution_repeats_nothing_of_its_steps(
    store: foldlog.Store, steps: Steps
) -> None:
    async with StateBackend(store).execution("s") as run:
        await run.step("a", steps.giving("a", "x" * 100_000))
        await run.step("b", steps.giving("b", b"y"), artifact=True)
        found = await loaded(store, "s")
        found.metadata.description = "theirs"
        before = sum(stream.bytes for stream in (await store.health()).streams)
        await StateBackend(store).update_state(found)
        after = sum(stream.bytes for stream in (await store.health()).streams)
        assert after - before < 1000
    async with StateBackend(store).execution("s", resume_from_address="b"):
        pass
    void = found.artifact_refs["b"]
    assert (await StateBackend(store).artifacts.collect_garbage(older_than=0)).artifact_ids == (
        void,
    )


async def test_a_storage_that_cannot_be_saved_costs_no_result(
    store: foldlog.Store, steps: Steps
) -> None:
    async def unsavable() -> None:
        async with StateBackend(store).execution("s", auto_checkpoint_config=AUTO) as run:
            run.storage["n"] = object()
            await run.step("a", steps.giving("a", 1), event_type=EventType.LLM)

    with pytest.raises(foldlog.PayloadError):
        await unsavable()
    async with StateBackend(store).execution("s") as run:
        assert await run.step("a", steps.giving("a", 2)) == 1
    assert steps.called == ["a"]


# --- artifacts ------------------------------------------------------------------------------------


async def test_a_large_result_is_restored_and_not_computed_again(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    large = b"x" * 400_000
    async with StateBackend(store).execution("s") as run:
        await run.step("small", steps.giving("small", b"y"), artifact=True)
        await run.step("large", steps.giving("large", large))
        named = await run.put_artifact("map", {"rows": [1]})
    other = await reopen()
    async with StateBackend(other).execution("s") as run:
        assert await run.step("small", steps.giving("again", b"")) == b"y"
        assert await run.step("large", steps.giving("again", b"")) == large
        assert await run.get_artifact("map") == {"rows": [1]}
        assert await run.get_artifact("other") is None
    assert steps.called == ["small", "large"]
    refs = (await loaded(store, "s")).artifact_refs
    assert set(refs) == {"small", "map"}
    assert refs["map"] == named
    assert await StateBackend(other).artifacts.load_artifact(refs["small"]) == b"y"
    assert (await StateBackend(other).artifacts.collect_garbage(older_than=0)).artifact_ids == ()


async def test_what_was_put_is_no_garbage_before_the_next_checkpoint(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    async with StateBackend(store).execution("s") as run:
        run.storage["half"] = "done"
        await run.put_artifact("map", b"x")
        collector = StateBackend(await reopen()).artifacts
        assert await collector.collect_garbage(older_than=0) == ((), 0)
        assert await run.get_artifact("map") == b"x"
        found = await loaded(store, "s")
        assert (set(found.artifact_refs), found.execution_state["storage"]["data"]) == (
            {"map"},
            {},
        )
        with pytest.raises(foldlog.PayloadError):
            await run.put_artifact("\ud800", b"x")
    assert (await loaded(store, "s")).execution_state["storage"]["data"] == {"half": "done"}


async def test_what_steps_gave_that_are_void_is_garbage(store: foldlog.Store, steps: Steps) -> None:
    async with StateBackend(store).execution("s") as run:
        await run.step("a", steps.giving("a", b"one"), artifact=True)
        await run.step("b", steps.giving("b", b"two"), artifact=True)
    void = (await loaded(store, "s")).artifact_refs["b"]
    async with StateBackend(store).execution("s", resume_from_address="b"):
        pass
    assert (await StateBackend(store).artifacts.collect_garbage(older_than=0)).artifact_ids == (
        void,
    )


async def test_a_result_that_was_deleted_is_missing_and_not_none(
    store: foldlog.Store, steps: Steps
) -> None:
    async with StateBackend(store).execution("s") as run:
        await run.step("nothing", steps.giving("nothing", None), artifact=True)
        await run.step("a", steps.giving("a", b"x"), artifact=True)
        assert await run.get_event_result("nothing") is None
        await StateBackend(store).artifacts.delete_artifact(
            (await loaded(store, "s")).artifact_refs["a"]
        )
        with pytest.raises(ResultMissing):
            await run.get_event_result("a")
    async with StateBackend(store).execution("s") as run:
        with pytest.raises(ResultMissing):
            await run.step("a", steps.giving("a", b"x"))


async def test_an_execution_may_keep_objects_as_pickles(store: foldlog.Store, steps: Steps) -> None:
    pickles = StateBackend(store).artifacts.with_codec("pickle")
    given = StateMetadata(tags=["an object"])
    for _ in range(2):
        async with StateBackend(store).execution("s", artifacts=pickles) as run:
            assert await run.step("a", steps.giving("a", given), artifact=True) == given
    assert steps.called == ["a"]


# --- versions -------------------------------------------------------------------------------------


async def test_an_execution_goes_on_at_todays_version(store: foldlog.Store) -> None:
    async with StateBackend(store).execution("s") as run:
        run.storage["seat"] = "12A"
    migrations = Migrations("1.1.0")

    @migrations.step("1.0.0", "1.1.0")
    def rename(old: StateSnapshot) -> StateSnapshot:
        data = old.execution_state["storage"]["data"]
        data["seat_number"] = data.pop("seat")
        return old

    async with StateBackend(store).with_migrations(migrations).execution("s") as run:
        assert run.storage == {"seat_number": "12A"}
    found = await loaded(store, "s")
    assert (found.version, found.execution_state["storage"]["data"]) == (
        "1.1.0",
        {"seat_number": "12A"},
    )


async def test_an_execution_that_begins_is_of_todays_version(store: foldlog.Store) -> None:
    migrations = Migrations("1.1.0")

    @migrations.step("1.0.0", "1.1.0")
    def rename(old: StateSnapshot) -> StateSnapshot:
        old.execution_state["storage"]["data"]["seat_number"] = "of an old version"
        return old

    states = StateBackend(store).with_migrations(migrations)
    async with states.execution("s") as run:
        run.storage["seat_number"] = "12A"
    found = await states.load_state("s")
    assert found is not None
    assert (found.version, found.execution_state["storage"]["data"]) == (
        "1.1.0",
        {"seat_number": "12A"},
    )
