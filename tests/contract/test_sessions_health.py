"""Sessions, health, rebuild, consistency, life span, and what a store can do."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import Any

import msgspec
import pytest
from pydantic import TypeAdapter

import foldlog
from tests.conftest import CONTAINER, OpenStore
from tests.support.build import binding, event, planner_event, steering, task, trajectory, update
from tests.support.stores import Backend, appended

METHODS = [
    "save_event",
    "load_history",
    "save_remote_binding",
    "find_binding",
    "list_bindings",
    "mark_binding_terminal",
    "save_planner_state",
    "load_planner_state",
    "save_memory_state",
    "load_memory_state",
    "save_task",
    "list_tasks",
    "save_update",
    "list_updates",
    "save_steering",
    "list_steering",
    "save_trajectory",
    "get_trajectory",
    "list_traces",
    "save_planner_event",
    "list_planner_events",
    "save_events",
    "artifact_store",
    "clear_session",
    "clear",
    "watch_steering",
    "watch_updates",
    "watch_events",
    "atomic",
    "sessions",
    "health",
    "rebuild",
    "close",
]


async def test_a_store_has_every_capability(store: foldlog.Store) -> None:
    assert foldlog.missing_capabilities(store, METHODS) == []
    foldlog.require_capabilities(store, feature="everything", methods=METHODS)
    assert isinstance(store, foldlog.StateStore)
    for protocol in (
        foldlog.SupportsPlannerState,
        foldlog.SupportsMemoryState,
        foldlog.SupportsTasks,
        foldlog.SupportsSteering,
        foldlog.SupportsTrajectories,
        foldlog.SupportsPlannerEvents,
        foldlog.SupportsArtifacts,
    ):
        assert isinstance(store, protocol), protocol


# --- sessions -----------------------------------------------------------------------------------


async def test_an_empty_log_has_no_sessions(store: foldlog.Store) -> None:
    assert await store.sessions() == []
    await store.list_tasks("only read")
    assert await store.sessions() == []


async def test_a_session_exists_by_whatever_was_saved_in_it(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    long = "long" * 1_500
    await store.save_task(task(session_id="by task"))
    await store.save_task(task(session_id="by all"))
    await store.save_update(update("u", "by.update"))
    await store.save_update(update("u", "by all"))
    await store.save_steering(steering("e", "by*steering>"))
    await store.save_steering(steering("e", "by all"))
    await store.save_trajectory("trace", "by\r\ntrajectory", trajectory())
    await store.save_update(update("u", long))
    await store.save_event(event("no session"))
    await store.save_memory_state("no session", {})
    expected = sorted(["by task", "by.update", "by*steering>", "by\r\ntrajectory", "by all", long])
    for reader in (store, await reopen()):
        assert sorted(await reader.sessions()) == expected


# --- health -------------------------------------------------------------------------------------


async def test_health_tells_what_it_knows(store: foldlog.Store, backend: Backend) -> None:
    await store.save_event(event())
    health = await store.health()
    # A client cannot know what a foreign server does; memory promises nothing.
    expected = {"memory": "none", "embedded": "fsync", "container": "unknown"}
    assert health.durability == expected[backend.name]
    assert health.max_payload > 0
    assert health.rtt_seconds >= 0
    assert health.hot_views >= 0
    assert len(health.streams) >= 1
    [stream] = [stream for stream in health.streams if stream.messages]
    assert stream.last_seq >= stream.first_seq >= 1
    assert stream.bytes > 0
    assert stream.replicas == 1
    if backend.name == "embedded":
        assert health.embedded is not None
        assert health.embedded.pid > 0
        assert 0 < health.embedded.port < 65_536
    else:
        assert health.embedded is None


async def test_health_is_written_by_name(store: foldlog.Store) -> None:
    await store.save_event(event())
    health = await store.health()
    by_pydantic = TypeAdapter(foldlog.Health).dump_python(health, mode="json")
    by_msgspec = msgspec.json.decode(msgspec.json.encode(health))
    assert by_pydantic == by_msgspec == json.loads(json.dumps(dataclasses.asdict(health)))
    assert by_pydantic["streams"][0]["replicas"] == 1


@pytest.mark.parametrize("backend", ["embedded", CONTAINER], indirect=True)
async def test_health_tells_no_password(store: foldlog.Store) -> None:
    health = await store.health()
    assert "@" not in health.url
    assert health.server_version


async def test_health_counts_what_is_appended(store: foldlog.Store) -> None:
    before = await appended(store)
    for i in range(3):
        await store.save_update(update(f"u{i}"))
    assert await appended(store) == before + 3


@pytest.mark.parametrize("backend", ["embedded", CONTAINER], indirect=True)
async def test_concurrent_saves_share_records(store: foldlog.Store) -> None:
    before = await appended(store)
    await asyncio.gather(*(store.save_update(update(f"u{i}")) for i in range(300)))
    assert len(await store.list_updates("session")) == 300
    assert await appended(store) - before < 300


# --- rebuild ------------------------------------------------------------------------------------


async def test_a_rebuild_finds_what_was_there(store: foldlog.Store) -> None:
    await asyncio.gather(*(store.save_update(update(f"u{i}")) for i in range(50)))
    await store.save_task(task())
    await store.save_event(event())
    await store.save_planner_event("trace", planner_event())
    await store.save_remote_binding(binding())
    updates = await store.list_updates("session")

    seen: list[Any] = []
    report = await store.rebuild(on_progress=seen.append)
    assert report.differing == ()
    assert report.envelopes >= 54
    assert report.views >= 5
    assert report.seconds >= 0
    assert report.projections["updates"] >= 1
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert seen[-1].done == seen[-1].total
    assert seen[-1].envelopes == report.envelopes

    assert await store.list_updates("session") == updates
    assert await store.list_tasks("session") == [task()]
    assert await store.load_history("trace") == [event()]
    assert await store.list_bindings(trace_id="trace") == [binding()]


async def test_one_projection_can_be_rebuilt_alone(store: foldlog.Store) -> None:
    await store.save_update(update("u"))
    await store.save_task(task())
    report = await store.rebuild("updates")
    assert set(report.projections) == {"updates"}
    assert report.envelopes == 1
    assert await store.list_updates("session") == [update("u")]


async def test_rebuilding_nothing_is_fine(store: foldlog.Store) -> None:
    report = await store.rebuild()
    assert (report.views, report.envelopes, report.differing) == (0, 0, ())


async def test_an_unknown_projection_is_refused(store: foldlog.Store) -> None:
    with pytest.raises(foldlog.FoldlogError, match="nonexistent"):
        await store.rebuild("nonexistent")


async def test_a_rebuild_appends_nothing(store: foldlog.Store) -> None:
    await store.save_update(update("u"))
    before = await appended(store)
    await store.rebuild()
    assert await appended(store) == before


# --- consistency --------------------------------------------------------------------------------


@pytest.mark.parametrize("consistency", ["session", "strong"])
async def test_a_store_reads_its_own_writes(store: foldlog.Store, consistency: str) -> None:
    for i in range(20):
        await store.save_update(update(f"u{i}"))
        [last] = await store.list_updates("session", limit=1, consistency=consistency)
        assert last.update_id == f"u{i}"
        await store.save_memory_state("key", {"n": i})
        assert await store.load_memory_state("key", consistency=consistency) == {"n": i}
        await store.save_event(event(ts=float(i)))
        assert len(await store.load_history("trace", consistency=consistency)) == i + 1


async def test_a_strong_read_sees_what_others_acked(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    for i in range(20):
        writer, reader = (store, other) if i % 2 else (other, store)
        await writer.save_update(update(f"u{i}"))
        [last] = await reader.list_updates("session", limit=1, consistency="strong")
        assert last.update_id == f"u{i}"
        await writer.save_trajectory(f"t{i}", "session", trajectory(f"q{i}"))
        assert (await reader.list_traces("session", 1, consistency="strong")) == [f"t{i}"]
        await writer.save_steering(steering(f"e{i}"))
        assert (await reader.list_steering("session", limit=1))[0].event_id == f"e{i}"


async def test_an_eventual_read_gives_a_prefix(store: foldlog.Store, reopen: OpenStore) -> None:
    other = await reopen()
    updates = [update(f"u{i}") for i in range(20)]
    for each in updates:
        await store.save_update(each)
        seen = await other.list_updates("session", consistency="eventual")
        assert seen == updates[: len(seen)]


async def test_an_unknown_consistency_is_refused(store: foldlog.Store) -> None:
    with pytest.raises((foldlog.FoldlogError, ValueError)) as refused:
        await store.list_updates("session", consistency="wishful")
    assert isinstance(refused.value, foldlog.FoldlogError)


# --- life span ----------------------------------------------------------------------------------


async def test_a_closed_store_says_so(reopen: OpenStore) -> None:
    store = await reopen()
    await store.save_event(event())
    await store.close()
    await store.close()
    with pytest.raises(foldlog.StoreClosed):
        await store.save_event(event())
    with pytest.raises(foldlog.StoreClosed):
        await store.load_history("trace")
    with pytest.raises(foldlog.StoreClosed):
        await store.list_tasks("session")
    with pytest.raises(foldlog.StoreClosed):
        await store.artifact_store.put_bytes(b"x")
    with pytest.raises(foldlog.StoreClosed):
        async with store.atomic():
            await store.save_event(event())


async def test_data_outlives_the_store_that_wrote_it(reopen: OpenStore) -> None:
    async with await reopen() as writer:
        await writer.save_event(event())
        ref = await writer.artifact_store.put_bytes(b"x")
    reader = await reopen()
    assert await reader.load_history("trace") == [event()]
    assert await reader.artifact_store.get(ref.id) == b"x"


async def test_leaving_the_block_closes_the_store(reopen: OpenStore) -> None:
    async with await reopen() as store:
        await store.save_event(event())
    with pytest.raises(foldlog.StoreClosed):
        await store.save_event(event())


async def test_a_cancelled_save_is_cancelled_and_the_store_goes_on(store: foldlog.Store) -> None:
    for i in range(20):
        saving = asyncio.ensure_future(store.save_update(update(f"cancelled-{i}")))
        other = asyncio.ensure_future(store.save_update(update(f"kept-{i}")))
        turns: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turns.set_result, None)
        await turns
        saving.cancel()
        [ended] = await asyncio.gather(saving, return_exceptions=True)
        assert ended is None or isinstance(ended, asyncio.CancelledError)
        await other
    listed = [u.update_id for u in await store.list_updates("session")]
    assert [u for u in listed if u.startswith("kept")] == [f"kept-{i}" for i in range(20)]
    assert len(set(listed)) == len(listed)
