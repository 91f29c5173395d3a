"""A store as it was, on every backend."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog import LogPosition, codec
from foldlog.position import Reach
from foldlog_projections import updates
from tests.conftest import OpenStore
from tests.support.build import (
    binding as remote_binding,
    event,
    planner_event,
    steering,
    task,
    trajectory,
    update,
)

SCOPE = foldlog.ArtifactScope(session_id="session")


async def ids(store: foldlog.Store, session: str = "session") -> list[str]:
    return [each.update_id for each in await store.list_updates(session)]


async def saved(store: foldlog.Store, *update_ids: str) -> list[LogPosition]:
    """Save updates one after the other; return the position after each."""
    positions = []
    for update_id in update_ids:
        await store.save_update(update(update_id))
        positions.append(await store.position())
    return positions


# --- naming a moment ----------------------------------------------------------------------------


async def test_a_position_is_a_moment_also_by_its_text(store: foldlog.Store) -> None:
    beginning = await store.position()
    first, second = await saved(store, "u1", "u2")
    assert beginning < first < second
    assert await ids(store.at(beginning)) == []
    assert await ids(store.at(first)) == ["u1"]
    assert await ids(store.at(LogPosition.parse(str(second)))) == ["u1", "u2"]
    assert await store.at(first).position() == first


async def test_a_time_means_all_that_was_stored_until_then(store: foldlog.Store) -> None:
    await saved(store, "u1", "u2", "u3")
    times = []
    for shard in range(store._core.log.namespace.shards):
        async for page in store._core.log.scan(shard):
            times += [dt.datetime.fromisoformat(stored.time) for stored in page]
    assert len(times) == 3
    for count, time in enumerate(times, 1):
        at_most = [t for t in times if t <= time]
        assert len(await ids(store.at(time))) == len(at_most) >= count
    assert await ids(store.at(times[0] - dt.timedelta(seconds=1))) == []
    far = dt.timezone(dt.timedelta(hours=-11))
    assert len(await ids(store.at(times[0].astimezone(far)))) >= 1
    assert len(await ids(store.at(dt.datetime.max.replace(tzinfo=dt.UTC)))) == 3
    assert await ids(store.at(dt.datetime.min.replace(tzinfo=dt.UTC))) == []


async def test_an_events_id_is_the_moment_right_after_it(store: foldlog.Store) -> None:
    await saved(store, "u1")
    async with store.atomic():  # one record, of which the moment has a part
        for update_id in ("u2", "u3", "u4"):
            await store.save_update(update(update_id))
    await store.save_steering(steering("s1"))
    await store.save_event(event("trace", 1.0))
    assert await ids(store.at("u3")) == ["u1", "u2", "u3"]
    assert await ids(store.at("u4")) == ["u1", "u2", "u3", "u4"]
    assert await store.at("u3").position() < await store.at("u4").position()
    past = store.at(steering("s1"))
    assert len(await past.list_steering("session")) == 1
    assert await past.load_history("trace") == []
    assert len(await store.at(event("trace", 1.0)).load_history("trace")) == 1


async def test_an_id_that_two_sessions_know_is_named_by_the_object(store: foldlog.Store) -> None:
    await store.save_update(update("u1", "a"))
    await store.save_update(update("u1", "b"))
    with pytest.raises(foldlog.UnknownMoment, match="2 places"):
        await store.at("u1")
    past = store.at(update("u1", "a"))
    assert (await ids(past, "a"), await ids(past, "b")) == (["u1"], [])


async def test_a_moment_that_is_none_is_refused_when_it_is_looked_for(store: foldlog.Store) -> None:
    [position] = await saved(store, "u1")
    [reach] = position.shards
    unknown: list[Any] = [
        "nobody",
        update("nobody"),
        LogPosition((Reach(reach.seq + 1),)),
        LogPosition((reach, reach)),
        LogPosition((Reach(reach.seq, mark="00000000"),)),  # of a log that was replaced
        dt.datetime(2026, 1, 1),
    ]
    for when in unknown:
        past = store.at(when)
        with pytest.raises(foldlog.UnknownMoment):
            await past.list_tasks("session")
        with pytest.raises(foldlog.UnknownMoment):
            async with past:
                pass
    with pytest.raises(foldlog.UnknownMoment):
        store.at(7)  # type: ignore[arg-type]
    with pytest.raises(foldlog.InvalidId):
        store.at("")


# --- what it shows ------------------------------------------------------------------------------


async def test_every_view_is_of_the_moment(store: foldlog.Store) -> None:
    async def save(n: int) -> None:
        await store.save_event(event("trace", float(n)))
        await store.save_planner_event("trace", planner_event(float(n)))
        await store.save_remote_binding(remote_binding(f"b{n}", router_session_id="router"))
        await store.save_memory_state("key", {"n": n})
        await store.save_task(task(priority=n))
        await store.save_update(update(f"u{n}"))
        await store.save_steering(steering(f"s{n}"))
        await store.save_trajectory("trace", "session", trajectory(f"query {n}"))
        await store.artifact_store.put_text(f"text {n}", scope=SCOPE)
        async with store.run("run", session_id="runs") as run:
            await run.step("step", str, n, on_change="again")

    await save(1)
    then = await store.position()
    await save(2)
    await store.save_update(update("only", "later"))
    async with store.at(then) as past:
        assert [each.ts for each in await past.load_history("trace")] == [1.0]
        assert [each.ts for each in await past.list_planner_events("trace")] == [1.0]
        assert [each.task_id for each in await past.list_bindings(trace_id="trace")] == ["b1"]
        listed = await past.list_bindings(router_session_id="router")
        assert [each.task_id for each in listed] == ["b1"]
        assert await past.load_memory_state("key") == {"n": 1}
        assert [each.priority for each in await past.list_tasks("session")] == [1]
        assert await ids(past) == ["u1"]
        assert [each.event_id for each in await past.list_steering("session")] == ["s1"]
        found = await past.get_trajectory("trace", "session")
        assert found is not None
        assert found.query == "query 1"
        assert len(await past.load_history("session:session")) == 3
        [ref] = await past.artifact_store.list(scope=SCOPE)
        assert await past.artifact_store.get(ref.id) == b"text 1"
        assert await past.sessions() == ["runs", "session"]
        step = (await past.view(foldlog.kinds.runs("runs", "run"))).steps["step"]
        assert codec.decode(step.result) == "1"
    assert await ids(store) == ["u1", "u2"]  # it is still open


async def test_what_is_saved_later_does_not_come_into_the_past(store: foldlog.Store) -> None:
    [then] = await saved(store, "u1")
    past = store.at(then)
    assert await ids(past) == ["u1"]
    await saved(store, "u2")
    assert await ids(past) == ["u1"]
    strong = await past.list_updates("session", consistency="strong")
    assert [each.update_id for each in strong] == ["u1"]


async def test_any_projection_is_read_as_of_the_moment_and_verified(store: foldlog.Store) -> None:
    [then] = await saved(store, "u1")
    await saved(store, "u2")
    past = store.at(then)
    assert [item.id for item in await past.items(updates.kind("session"))] == ["u1"]
    report = await past.verify()
    assert (report.envelopes, report.differing) == (1, ())


async def test_watching_the_past_ends_where_it_ends(store: foldlog.Store) -> None:
    *_, then = await saved(store, "u1", "u2")
    await saved(store, "u3")
    async with asyncio.timeout(30):
        seen = [each.update_id async for each in store.at(then).watch_updates("session")]
    assert seen == ["u1", "u2"]


async def test_a_pause_is_as_it_was(
    store: foldlog.Store, reopen: OpenStore, advance_clock: Callable[[float], None]
) -> None:
    short = await reopen(pause_ttl=60.0)
    before = await store.position()
    await short.save_planner_state("token", {"n": 1})
    waiting = await store.position()
    assert await store.load_planner_state("token") == {"n": 1}
    consumed = await store.position()
    advance_clock(120.0)
    assert await store.at(before).load_planner_state("token") is None
    for _ in range(2):  # looking does not consume
        assert await store.at(waiting).load_planner_state("token") == {"n": 1}
    assert await store.at(consumed).load_planner_state("token") is None
    assert await store.load_planner_state("token") is None
    later = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=90)
    await short.save_planner_state("other", {"n": 2})
    assert await store.at(later).load_planner_state("other") is None  # expired by then


async def test_an_artifact_lives_as_long_as_it_did(
    reopen: OpenStore, advance_clock: Callable[[float], None]
) -> None:
    store = await reopen(retention=foldlog.ArtifactRetentionConfig(ttl_seconds=60))
    ref = await store.artifact_store.put_text("text", scope=SCOPE)
    then = await store.position()
    advance_clock(120.0)
    assert not await store.artifact_store.exists(ref.id)
    assert await store.at(then).artifact_store.exists(ref.id)
    later = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=120)
    assert not await store.at(later).artifact_store.exists(ref.id)


# --- what is gone -------------------------------------------------------------------------------


async def test_a_session_that_was_cleared_since_is_said_to_be_gone(store: foldlog.Store) -> None:
    await store.save_task(task())
    await store.save_trajectory("trace", "session", trajectory())
    *_, then = await saved(store, "u1")
    await store.save_update(update("u1", "another"))
    await store.clear_session("session")
    past = store.at(then)
    for reading in (past.list_tasks, past.list_updates, past.list_traces):
        with pytest.raises(foldlog.PastErased):
            await reading("session")
    assert await past.sessions() == []
    assert await past.list_steering("session") == []  # there was nothing to clear
    assert await ids(store.at(await store.position())) == []


async def test_a_past_that_was_read_before_shows_nothing_of_what_is_erased(
    store: foldlog.Store,
) -> None:
    memory, mine = "acme:ann:session", foldlog.Key(updates.kind, ("session",))
    await store.save_task(task())
    await store.save_event(event(trace_id="session:session"))
    await store.save_memory_state(memory, {"a": 1})
    await store.save_planner_state("token", {"a": 1}, session_id="session")
    await saved(store, "u1")
    ref = await store.artifact_store.put_text("secret", scope=SCOPE)
    past = store.at(await store.position())
    readings: list[Callable[[], Any]] = [
        lambda: past.list_tasks("session"),
        lambda: past.list_updates("session"),
        lambda: past.load_history("session:session"),
        lambda: past.load_memory_state(memory),
        lambda: past.load_planner_state("token"),
        lambda: past.artifact_store.get(ref.id),
        lambda: past.artifact_store.list(scope=SCOPE),
        lambda: past.items(mine),
        lambda: past.view(mine, consistency="eventual"),
        lambda: past.session("session").__aenter__(),
    ]
    for reading in readings:
        assert await reading()
    watched = past.watch_updates("session")
    assert (await anext(watched)).update_id == "u1"
    await store.erase_session("session")
    for number, reading in enumerate(readings):
        with suppress(foldlog.PastErased):
            assert not await reading(), number
    with pytest.raises((foldlog.PastErased, StopAsyncIteration)):
        await anext(watched)


async def test_an_artifact_of_a_session_that_was_cleared_is_of_no_moment(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    before = await store.position()
    ref = await store.artifact_store.put_text("text", scope=SCOPE)
    then = await store.position()
    read_before = store.at(then)
    assert await read_before.artifact_store.get(ref.id) == b"text"
    await store.clear_session("session")
    cleared = await store.position()
    assert await store.artifact_store.put_text("text", scope=SCOPE) == ref  # it begins anew
    other = await reopen()
    for past in (read_before, store.at(then), other.at(then)):
        files = past.artifact_store
        assert (await files.get(ref.id), await files.get_ref(ref.id)) == (None, None)
        assert not await files.exists(ref.id)
        for reading in (
            files.list(scope=SCOPE),
            files.get_with_session_check(ref.id, "session"),
        ):
            with pytest.raises(foldlog.PastErased):
                await reading
    for moment in (before, cleared):
        files = other.at(moment).artifact_store
        assert (await files.get(ref.id), await files.get_ref(ref.id)) == (None, None)
    with pytest.raises(foldlog.PastErased):  # nobody can tell any more that there was none
        await other.at(before).artifact_store.list(scope=SCOPE)
    assert await other.at(cleared).artifact_store.list(scope=SCOPE) == []
    for past in (store, other, other.at(await store.position())):
        assert await past.artifact_store.get(ref.id) == b"text"
        assert await past.artifact_store.list(scope=SCOPE) == [ref]


async def test_the_bytes_of_what_was_deleted_since_are_said_to_be_gone(
    store: foldlog.Store,
) -> None:
    ref = await store.artifact_store.put_text("text", scope=SCOPE)
    then = await store.position()
    await store.artifact_store.delete(ref.id)
    past = store.at(then)
    assert await past.artifact_store.get_ref(ref.id) == ref
    with pytest.raises(foldlog.PastErased):
        await past.artifact_store.get(ref.id)


# --- nothing is written -------------------------------------------------------------------------


async def test_every_write_is_refused_by_its_name(store: foldlog.Store) -> None:
    [then] = await saved(store, "u1")
    past = store.at(then)
    writes = {
        "save_event": past.save_event(event()),
        "save_events": past.save_events([event()]),
        "save_remote_binding": past.save_remote_binding(remote_binding()),
        "mark_binding_terminal": past.mark_binding_terminal(
            trace_id="t", context_id=None, task_id="t"
        ),
        "save_planner_state": past.save_planner_state("token", {}),
        "save_memory_state": past.save_memory_state("key", {}),
        "save_task": past.save_task(task()),
        "save_update": past.save_update(update("u2")),
        "save_steering": past.save_steering(steering("s1")),
        "save_trajectory": past.save_trajectory("t", "s", trajectory()),
        "save_planner_event": past.save_planner_event("t", planner_event()),
        "clear_session": past.clear_session("session"),
        "clear": past.clear("default"),
        "erase_session": past.erase_session("session"),
        "fork": past.fork("session"),
        "rebuild": past.rebuild(),
        "put_bytes": past.artifact_store.put_bytes(b""),
        "put_text": past.artifact_store.put_text(""),
        "delete": past.artifact_store.delete("a"),
    }
    for name, write in writes.items():
        with pytest.raises(foldlog.ReadOnlyStore) as refused:
            await write
        assert refused.value.refused == name
    with pytest.raises(foldlog.ReadOnlyStore):
        past.atomic()
    with pytest.raises(foldlog.ReadOnlyStore, match="run"):
        await past.run("run")
    assert await store.position() == then


async def test_a_store_that_degrades_does_not_degrade_in_the_past(reopen: OpenStore) -> None:
    store = await reopen(on_error="degrade")
    await saved(store, "u1")
    with pytest.raises(foldlog.UnknownMoment):
        await store.at("nobody").list_updates("session")


async def test_a_closed_store_has_no_past(reopen: OpenStore) -> None:
    store = await reopen()
    await store.close()
    with pytest.raises(foldlog.StoreClosed):
        store.at("u1")


# --- shards -------------------------------------------------------------------------------------


async def test_with_several_shards_a_position_is_a_vector(embedded_path: Path) -> None:
    from tests.support.stores import EmbeddedBackend

    for store in (
        foldlog.memory_store(shards=3),
        await EmbeddedBackend(embedded_path).open(shards=3),
    ):
        async with store:
            for number in range(12):
                await store.save_update(update("u", f"session-{number}"))
                if number == 5:
                    then = await store.position()
            assert len(then.shards) == 3
            assert [n for n in range(12) if await ids(store.at(then), f"session-{n}")] == [
                *range(6)
            ]
            by_event = store.at(update("u", "session-7"))
            assert await ids(by_event, "session-7") == ["u"]
            assert await ids(by_event, "session-2") == ["u"]
