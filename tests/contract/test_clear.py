"""Clearing: a session goes with its traces and artifacts, and stays gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

import foldlog
from foldlog import ArtifactScope
from foldlog.envelope import CLEARED
from foldlog.log.port import Append
from foldlog.subjects import Subject
from tests.conftest import OpenStore
from tests.support.build import binding, event, planner_event, steering, task, trajectory, update
from tests.support.pushed import all_is_pushed


async def fill(store: foldlog.Store, session: str) -> None:
    """Puts something of every kind into the session; its traces are `<session>-a` and `-b`."""
    await store.save_task(task("task", session))
    await store.save_task(task("task", session, priority=9))
    for i in range(3):
        await store.save_update(update(f"u{i}", session))
        await store.save_steering(steering(f"e{i}", session))
    for trace in (f"{session}-a", f"{session}-b"):
        await store.save_event(event(trace))
        await store.save_planner_event(trace, planner_event())
        await store.save_trajectory(trace, session, trajectory("first"))
        await store.save_trajectory(trace, session, trajectory("second"))
        scope = ArtifactScope(session_id=session, trace_id=trace)
        await store.artifact_store.put_bytes(b"artifact", scope=scope)


async def contents(store: foldlog.Store, session: str) -> dict[str, object]:
    """What a reader finds of the session, by kind; empty where there is nothing."""
    traces = (f"{session}-a", f"{session}-b")
    found: dict[str, object] = {
        "tasks": await store.list_tasks(session),
        "updates": await store.list_updates(session, consistency="strong"),
        "steering": await store.list_steering(session),
        "traces": await store.list_traces(session, consistency="strong"),
        "artifacts": await store.artifact_store.list(scope=ArtifactScope(session_id=session)),
    }
    for trace in traces:
        found[f"history {trace}"] = await store.load_history(trace, consistency="strong")
        found[f"planner {trace}"] = await store.list_planner_events(trace, consistency="strong")
        found[f"trajectory {trace}"] = await store.get_trajectory(
            trace, session, consistency="strong"
        )
    return {kind: value for kind, value in found.items() if value}


async def test_a_filled_session_is_full(store: foldlog.Store) -> None:
    await fill(store, "session")
    assert len(await contents(store, "session")) == 11


async def test_a_cleared_session_is_gone_for_everybody(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    await fill(store, "session")
    assert await contents(other, "session")  # the other store's views are hot now
    await store.clear_session("session")
    await all_is_pushed(other)
    for reader in (store, other, await reopen()):
        assert await contents(reader, "session") == {}
        assert await reader.sessions() == []


async def test_artifacts_of_a_cleared_session_cannot_be_read(store: foldlog.Store) -> None:
    ref = await store.artifact_store.put_bytes(b"x", scope=ArtifactScope(session_id="session"))
    await store.clear_session("session")
    assert await store.artifact_store.get(ref.id) is None
    assert await store.artifact_store.get_with_session_check(ref.id, "session") is None
    assert await store.artifact_store.exists(ref.id) is False


async def test_other_sessions_are_left_alone(store: foldlog.Store, reopen: OpenStore) -> None:
    names = ["session-", "sessio", "Session", "session.x", "session>"]
    for name in ("session", *names):
        await fill(store, name)
    await store.save_memory_state("key", {"n": 1})
    await store.save_planner_state("token", {"n": 1})
    before = {name: await contents(store, name) for name in names}
    await store.clear_session("session")
    other = await reopen()
    for name in names:
        assert await contents(store, name) == before[name]
        assert await contents(other, name) == before[name]
    assert sorted(await other.sessions()) == sorted(names)
    assert await other.load_memory_state("key") == {"n": 1}
    assert await other.load_planner_state("token") == {"n": 1}


async def test_naming_anothers_trace_does_not_make_it_ones_own(store: foldlog.Store) -> None:
    await fill(store, "theirs")
    before = await contents(store, "theirs")
    await store.save_task(task("task", "mine", trace_id="theirs-a"))
    await store.save_update(update("u", "mine", trace_id="theirs-a"))
    await store.clear_session("mine")
    assert await contents(store, "theirs") == before


class Sent:
    """What a store sends to its log, to be sent once more as a transport does without an ack."""

    def __init__(self, store: foldlog.Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self._append = append = store._core.log.append
        self._sent: list[tuple[Sequence[Append], bool]] = []

        async def appending(appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
            self._sent.append((appends, atomic))
            return await append(appends, atomic=atomic)

        monkeypatch.setattr(store._core.log, "append", appending)

    async def again(self) -> None:
        """Send all of it once more."""
        for appends, atomic in self._sent:
            with suppress(foldlog.AppendConflict):
                await self._append(appends, atomic=atomic)


async def test_a_late_repeat_cannot_bring_a_session_back(
    store: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await reopen()
    sent = Sent(other, monkeypatch)
    await fill(other, "session")
    await store.clear_session("session")
    await sent.again()
    await all_is_pushed(store, other)
    for reader in (store, other, await reopen()):
        assert await contents(reader, "session") == {}
        assert await reader.sessions() == []


async def test_a_late_repeat_stays_away_after_a_second_clearing(
    store: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await reopen()
    sent = Sent(other, monkeypatch)
    await other.save_update(update("first"))
    await store.clear_session("session")
    await store.save_update(update("second"))
    await store.clear_session("session")
    await sent.again()
    assert await store.list_updates("session", consistency="strong") == []
    await store.save_update(update("first"))
    await sent.again()
    for reader in (store, other, await reopen()):
        assert await reader.list_updates("session", consistency="strong") == [update("first")]


async def test_a_cleared_session_takes_in_bulk_what_it_held(store: foldlog.Store) -> None:
    await fill(store, "session")
    await store.clear_session("session")
    for _ in range(2):
        await store.save_events([event("session-a"), event("session-b")])
        async with store.atomic():
            await store.save_update(update("u0", "session"))
            await store.save_steering(steering("e0", "session"))
    assert await contents(store, "session") == {
        "updates": [update("u0", "session")],
        "steering": [steering("e0", "session")],
        "history session-a": [event("session-a")],
        "history session-b": [event("session-b")],
    }


async def test_a_cleared_session_takes_new_writes(store: foldlog.Store, reopen: OpenStore) -> None:
    await fill(store, "session")
    await store.clear_session("session")
    await store.save_task(task("new"))
    await store.save_update(update("new"))
    await store.save_steering(steering("new"))
    await store.save_event(event("session-a", 7.0))
    await store.save_planner_event("session-a", planner_event(7.0))
    await store.save_trajectory("session-a", "session", trajectory("new"))
    ref = await store.artifact_store.put_bytes(b"new", scope=ArtifactScope(session_id="session"))
    for reader in (store, await reopen()):
        assert await reader.list_tasks("session") == [task("new")]
        assert await reader.list_updates("session") == [update("new")]
        assert await reader.list_steering("session") == [steering("new")]
        assert await reader.load_history("session-a") == [event("session-a", 7.0)]
        assert await reader.list_planner_events("session-a") == [planner_event(7.0)]
        assert await reader.list_traces("session") == ["session-a"]
        assert await reader.get_trajectory("session-a", "session") == trajectory("new")
        assert await reader.artifact_store.get(ref.id) == b"new"
        assert await reader.sessions() == ["session"]


async def test_a_late_repeat_cannot_replace_what_is_new(
    store: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = await reopen()
    sent = Sent(late, monkeypatch)
    await late.save_task(task(priority=1))
    await late.save_trajectory("trace", "session", trajectory("old"))
    await store.clear_session("session")
    await store.save_task(task(priority=2))
    await store.save_trajectory("trace", "session", trajectory("new"))

    await sent.again()
    for reader in (store, late, await reopen()):
        assert await reader.list_tasks("session") == [task(priority=2)]
        found = await reader.get_trajectory("trace", "session", consistency="strong")
        assert found == trajectory("new")
        assert await reader.list_traces("session", consistency="strong") == ["trace"]


async def test_a_cursor_from_before_the_clearing_is_unknown(store: foldlog.Store) -> None:
    for i in range(3):
        await store.save_update(update(f"old-{i}"))
    await store.clear_session("session")
    for i in range(3):
        await store.save_update(update(f"new-{i}"))
    page = await store.list_updates("session", since_id="old-2", limit=2)
    assert [u.update_id for u in page] == ["new-1", "new-2"]
    page = await store.list_updates("session", since_id="new-0", limit=1)
    assert [u.update_id for u in page] == ["new-1"]


async def test_clearing_what_is_empty_changes_nothing(store: foldlog.Store) -> None:
    await store.clear_session("nonexistent")
    await fill(store, "session")
    await store.clear_session("session")
    await store.clear_session("session")
    assert await contents(store, "session") == {}


async def test_clearing_races_with_writers_cleanly(store: foldlog.Store, reopen: OpenStore) -> None:
    other = await reopen()
    names = [f"u{i}" for i in range(60)]
    saves = (
        s.save_update(update(n)) for i, n in enumerate(names) for s in ((store, other)[i % 2],)
    )
    answers = await asyncio.gather(*saves, store.clear_session("session"), return_exceptions=True)
    assert all(each is None or isinstance(each, foldlog.FoldlogError) for each in answers)
    survivors = await store.list_updates("session", consistency="strong")
    assert await other.list_updates("session", consistency="strong") == survivors
    assert await (await reopen()).list_updates("session") == survivors
    # Whatever was before the clearing may come anew, whatever was after it stays there once.
    for name in names:
        await other.save_update(update(name))
    found = await other.list_updates("session", consistency="strong")
    assert found[: len(survivors)] == survivors
    assert sorted(each.update_id for each in found) == sorted(names)


async def test_clear_removes_everything(store: foldlog.Store, reopen: OpenStore) -> None:
    other = await reopen()
    await fill(store, "one")
    await fill(store, "two")
    await store.save_event(event(None))
    await store.save_event(event("loose"))
    await store.save_memory_state("key", {"n": 1})
    await store.save_planner_state("token", {"n": 1})
    await store.save_remote_binding(binding(router_session_id="router", remote_skill="s"))
    assert await contents(other, "one")
    await store.clear(store.log.namespace.name)
    for reader in (store, other, await reopen()):
        assert await reader.sessions() == []
        assert await contents(reader, "one") == {}
        assert await contents(reader, "two") == {}
        assert await reader.load_history("__global__", consistency="strong") == []
        assert await reader.load_history("loose", consistency="strong") == []
        assert await reader.load_memory_state("key", consistency="strong") is None
        assert await reader.load_planner_state("token") is None
        assert await reader.list_bindings(trace_id="trace", consistency="strong") == []
        assert (await reader.list_bindings(router_session_id="router", consistency="strong")) == []
        assert await reader.artifact_store.list() == []

    await store.save_update(update("new"))
    await store.save_memory_state("key", {"n": 2})
    for reader in (store, other):
        assert await reader.list_updates("session", consistency="strong") == [update("new")]
        assert await reader.load_memory_state("key", consistency="strong") == {"n": 2}


async def test_clear_asks_once_a_shard_however_much_there_is(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await reopen(shards=2)
    asked: list[int] = []
    purge = store._core.log.purge

    async def counted(which: object, **bounds: object) -> None:
        assert isinstance(which, int), f"{which} is purged alone"
        asked.append(which)
        await purge(which, **bounds)

    await asyncio.gather(*(store.save_update(update("secret", f"{n}")) for n in range(50)))
    monkeypatch.setattr(store._core.log, "purge", counted)
    await store.clear(store.log.namespace.name)
    assert asked == [0, 1]
    for subject in await store._core.log.subjects():
        async for records in store._core.log.read(subject):
            assert [e.type for record in records for e in record.envelopes] == [CLEARED]
    assert await store.sessions() == []


async def test_what_is_saved_while_everything_is_cleared_is_there_for_all_or_for_none(
    store: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await reopen()
    await store.save_update(update("old", "known"))
    listed = store._core.log.subjects

    async def meanwhile(family: str | None = None, shard: int | None = None) -> dict[Subject, int]:
        found = await listed(family, shard)
        if family is None:
            await other.save_update(update("late", "known"))
            await other.save_update(update("late", "new"))
        return found

    monkeypatch.setattr(store._core.log, "subjects", meanwhile)
    await store.clear(store.log.namespace.name)
    monkeypatch.undo()
    for reader in (store, other, await reopen()):
        # Cleared with the rest, and saved after it: what is acked never goes without a trace.
        assert await reader.list_updates("known", consistency="strong") == []
        assert await reader.list_updates("new", consistency="strong") == [update("late", "new")]
    await store.clear(store.log.namespace.name)
    for reader in (store, other, await reopen()):
        assert await reader.list_updates("new", consistency="strong") == []
