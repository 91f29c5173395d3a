"""The StateBackend, on every backend."""

from __future__ import annotations

import asyncio
import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

import foldlog
from foldlog.envelope import draft
from foldlog.integrations.rh_agents import (
    IncompatibleState,
    Migrations,
    StateBackend,
    StateSnapshot,
    StateStatus,
)
from foldlog.log.port import Append
from foldlog.store.payloads import dump
from foldlog_projections.rh_agents import statelist
from foldlog_projections.rh_agents.states import Saved
from tests.conftest import OpenStore
from tests.integrations.rh_agents.build import event, snapshot
from tests.support.exact import same
from tests.support.stores import appended


async def test_a_snapshot_comes_back_as_it_was_saved(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    saved = snapshot(
        "s",
        event("search", result={"flights": [1, 2.5, None, True]}),
        storage={"at": dt.datetime(2024, 1, 2, tzinfo=dt.UTC), "fare": Decimal("1.10"), "t": (1,)},
        metadata={
            "tags": ["air", "vip"],
            "description": "a booking",
            "pipeline_name": "booking",
            "parent_state_id": "parent",
            "custom": {"user": 7},
        },
        version="1.2.3",
        status=StateStatus.PAUSED,
        artifact_refs={"map": "a1"},
    )
    assert await StateBackend(store).save_state(saved) is True
    for reader in (store, await reopen()):
        loaded = await StateBackend(reader).load_state("s")
        assert loaded == saved
        assert loaded is not None
        assert same(loaded.execution_state, saved.execution_state)


async def test_what_is_loaded_is_the_callers_own(store: foldlog.Store) -> None:
    await StateBackend(store).save_state(snapshot("s", storage={"list": [1]}))
    loaded = await StateBackend(store).load_state("s")
    assert loaded is not None
    loaded.execution_state["storage"]["data"]["list"].append(2)
    again = await StateBackend(store).load_state("s")
    assert again is not None
    assert again.execution_state["storage"]["data"] == {"list": [1]}


async def test_there_is_nothing_where_nothing_was_saved(store: foldlog.Store) -> None:
    assert await StateBackend(store).load_state("unknown") is None
    assert await StateBackend(store).delete_state("unknown") is False
    assert await StateBackend(store).update_state(snapshot("unknown")) is False
    assert await StateBackend(store).load_state("unknown") is None
    assert await StateBackend(store).list_states() == []


async def test_each_save_replaces_the_one_before(store: foldlog.Store, reopen: OpenStore) -> None:
    events = [event(f"step {n}") for n in range(5)]
    for n in range(5):
        await StateBackend(store).save_state(snapshot("s", *events[:n], storage={"n": n}))
    shorter = snapshot("s", events[4], storage={"other": list(range(3))})
    assert await StateBackend(store).update_state(shorter) is True
    for reader in (store, await reopen()):
        assert await StateBackend(reader).load_state("s") == shorter


@pytest.mark.parametrize("state_id", ["a b.c>*", "é" * 300, "../../etc/passwd", "\0"])
async def test_any_id_is_only_a_name(store: foldlog.Store, state_id: str) -> None:
    await StateBackend(store).save_state(snapshot(state_id))
    await StateBackend(store).save_state(snapshot("another"))
    assert await StateBackend(store).load_state(state_id) == snapshot(state_id)
    assert {s.state_id for s in await StateBackend(store).list_states()} == {state_id, "another"}


async def test_what_could_not_be_read_again_is_refused(store: foldlog.Store) -> None:
    """One such state would keep all of them from being listed."""
    saved = snapshot("s")
    await StateBackend(store).save_state(saved)
    saved.metadata.custom[5] = "five"  # type: ignore[index]
    with pytest.raises(foldlog.PayloadError):
        await StateBackend(store).save_state(saved)
    assert [found.state_id for found in await StateBackend(store).list_states()] == ["s"]


async def test_what_cannot_be_held_is_refused_by_name(store: foldlog.Store) -> None:
    before = await appended(store)
    with pytest.raises(foldlog.PayloadError) as refused:
        await StateBackend(store).save_state(snapshot("s", storage={"bad": [1, object()]}))
    assert "bad" in refused.value.path
    with pytest.raises(foldlog.InvalidId):
        await StateBackend(store).save_state(snapshot(""))
    with pytest.raises(foldlog.InvalidId):
        await StateBackend(store).load_state("")
    with pytest.raises(foldlog.PayloadError):
        await StateBackend(store).list_states(limit=-1)
    assert await appended(store) == before


async def test_several_who_save_one_state_leave_one_of_theirs(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    snapshots = [snapshot("s", event(f"by {n}"), storage={"n": n}) for n in range(8)]
    savers = (
        StateBackend(store if n % 2 else other).save_state(each) for n, each in enumerate(snapshots)
    )
    await asyncio.gather(*savers)
    assert await StateBackend(store).load_state("s") in snapshots
    assert await StateBackend(store).load_state("s") == await StateBackend(other).load_state("s")


# --- finding ------------------------------------------------------------------------------------


async def ids(store: foldlog.Store, **wanted: Any) -> list[str]:
    return [found.state_id for found in await StateBackend(store).list_states(**wanted)]


async def test_states_are_found_by_what_describes_them(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    described: list[tuple[str, dict[str, Any], StateStatus]] = [
        ("a", {"tags": ["x", "y"], "pipeline_name": "p"}, StateStatus.PAUSED),
        ("b", {"tags": ["x"], "pipeline_name": "q", "parent_state_id": "a"}, StateStatus.RUNNING),
        ("c", {"tags": ["y"], "parent_state_id": "a"}, StateStatus.PAUSED),
    ]
    for state_id, metadata, status in described:
        await StateBackend(store).save_state(snapshot(state_id, metadata=metadata, status=status))
    for reader in (store, await reopen()):
        assert await ids(reader) == ["c", "b", "a"]
        assert await ids(reader, tags=["x"]) == ["b", "a"]
        assert await ids(reader, tags=["x", "y"]) == ["a"]
        assert await ids(reader, tags=["z"]) == []
        assert await ids(reader, status=StateStatus.PAUSED) == ["c", "a"]
        assert await ids(reader, pipeline_name="p") == ["a"]
        assert await ids(reader, parent_state_id="a") == ["c", "b"]
        assert await ids(reader, parent_state_id="a", status=StateStatus.PAUSED) == ["c"]
        assert await ids(reader, limit=2) == ["c", "b"]
        assert await ids(reader, limit=0) == []


async def test_the_newest_come_first(store: foldlog.Store) -> None:
    for state_id, day in [("a", 2), ("b", 9), ("c", 5)]:
        await StateBackend(store).save_state(
            snapshot(state_id, updated_at=f"2024-01-0{day}T00:00:00+00:00")
        )
    assert await ids(store) == ["b", "c", "a"]
    await StateBackend(store).save_state(snapshot("a", updated_at="2024-02-01T00:00:00"))
    assert await ids(store) == ["a", "b", "c"]


async def test_a_state_is_found_by_what_it_is_now(store: foldlog.Store) -> None:
    await StateBackend(store).save_state(snapshot("s", metadata={"tags": ["draft"]}))
    done = snapshot("s", metadata={"tags": ["final"]}, status=StateStatus.COMPLETED)
    await StateBackend(store).update_state(done)
    assert await ids(store, tags=["draft"]) == []
    assert await ids(store, status=StateStatus.RUNNING) == []
    assert await ids(store, tags=["final"], status=StateStatus.COMPLETED) == ["s"]


async def test_the_list_spans_shards(reopen: OpenStore) -> None:
    store = await reopen(namespace="sharded-states", shards=4)
    names = [f"state {n}" for n in range(12)]
    for name in names:
        await StateBackend(store).save_state(snapshot(name))
    assert sorted(await ids(store)) == sorted(names)
    await StateBackend(store).delete_state(names[0])
    assert sorted(await ids(store)) == sorted(names[1:])


# --- removing -----------------------------------------------------------------------------------


async def test_what_was_deleted_is_gone_and_may_come_again(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    await StateBackend(store).save_state(snapshot("s", event("old")))
    await StateBackend(store).save_state(snapshot("kept"))
    assert await StateBackend(store).delete_state("s") is True
    assert list(await store.view(statelist.kind("0"))) == ["kept"]
    for reader in (store, await reopen()):
        assert await StateBackend(reader).load_state("s") is None
        assert await ids(reader) == ["kept"]
    assert await StateBackend(store).delete_state("s") is False
    await StateBackend(store).save_state(snapshot("s", event("new")))
    assert await StateBackend(store).load_state("s") == snapshot("s", event("new"))
    assert await ids(store) == ["s", "kept"]


# --- versions -----------------------------------------------------------------------------------


async def test_an_old_snapshot_is_migrated_when_it_is_loaded(store: foldlog.Store) -> None:
    migrations = Migrations("1.1.0")

    @migrations.step("1.0.0", "1.1.0")
    def rename(old: StateSnapshot) -> StateSnapshot:
        data = old.execution_state["storage"]["data"]
        data["seat_number"] = data.pop("seat")
        return old

    await StateBackend(store).save_state(snapshot("old", storage={"seat": "12A"}))
    await StateBackend(store).save_state(snapshot("ancient", version="0.9.0"))
    states = StateBackend(store).with_migrations(migrations)
    migrated = await states.load_state("old")
    assert migrated == snapshot("old", storage={"seat_number": "12A"}, version="1.1.0")
    with pytest.raises(IncompatibleState):
        await states.load_state("ancient")
    assert await StateBackend(store).load_state("old") == snapshot("old", storage={"seat": "12A"})


# --- what it costs ------------------------------------------------------------------------------


async def test_checkpoints_of_a_growing_history_take_the_space_of_the_history(
    store: foldlog.Store,
) -> None:
    """Whole snapshots would take the sum over all of them: some forty times as much."""

    async def stored() -> int:
        return sum(stream.bytes for stream in (await store.health()).streams)

    events: list[dict[str, Any]] = []
    before = await stored()
    for n in range(80):
        events.append(event(f"step {n}", result="x" * 1000))
        await StateBackend(store).save_state(snapshot("s", *events, storage={"n": n}))
    one_history = len(snapshot("s", *events).model_dump_json())
    assert await stored() - before < 2 * one_history
    assert await StateBackend(store).load_state("s") == snapshot("s", *events, storage={"n": 79})


async def test_a_state_of_any_size_is_saved_at_once(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    huge = snapshot(
        "s",
        *(event(f"step {n}", result="x" * 10_000) for n in range(900)),
        storage={"text": "é" * 2_000_000},
    )
    await StateBackend(store).save_state(huge)
    for reader in (store, await reopen()):
        assert await StateBackend(reader).load_state("s") == huge


async def test_a_save_that_was_torn_has_no_effect(store: foldlog.Store) -> None:
    """A server that loses power while it stores a batch may keep the first pieces of it."""
    await StateBackend(store).save_state(snapshot("s", storage={"n": 1}))
    subject = store._core.log.namespace.subject("states", "s")
    torn = dump(Saved([0, {"torn": True}], "a save", partial=True))
    await store._core.log.append([Append(subject, (draft("state.saved", torn, id="torn"),))])
    assert await StateBackend(store).load_state("s") == snapshot("s", storage={"n": 1})
    for n in (2, 3):
        await StateBackend(store).save_state(snapshot("s", storage={"n": n}))
        assert await StateBackend(store).load_state("s") == snapshot("s", storage={"n": n})


# --- others' snapshots --------------------------------------------------------------------------


class TheirMetadata(BaseModel):
    tags: list[str] = []
    custom: dict[str, Any] = {}


class TheirSnapshot(BaseModel):
    """A snapshot of a library that has its own classes."""

    state_id: str
    created_at: str = "2024-01-01"
    updated_at: str = "2024-01-01"
    status: str = "running"
    metadata: TheirMetadata = TheirMetadata()
    execution_state: dict[str, Any] = {}


async def test_another_librarys_snapshot_is_taken_for_its_shape(store: foldlog.Store) -> None:
    nested = TheirMetadata(tags=["deep"])
    theirs: Any = TheirSnapshot(
        state_id="s", metadata=TheirMetadata(tags=["t"]), execution_state={"model": nested}
    )
    await StateBackend(store).save_state(theirs)
    loaded = await StateBackend(store).load_state("s")
    assert loaded is not None
    assert loaded.metadata.tags == ["t"]
    assert loaded.execution_state == {"model": {"tags": ["deep"], "custom": {}}}
    other: Any = nested
    with pytest.raises(foldlog.PayloadError):
        await StateBackend(store).save_state(other)


async def test_a_state_that_is_no_snapshot_is_corrupt(store: foldlog.Store) -> None:
    broken = draft("state.saved", dump(Saved([0, {"state_id": 1}])), id="x")
    await store._core.log.append(
        [Append(store._core.log.namespace.subject("states", "s"), (broken,))]
    )
    with pytest.raises(foldlog.LogCorrupt):
        await StateBackend(store).load_state("s")
