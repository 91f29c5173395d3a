"""Bad input, clearings that are cut short or raced, logs of newer programs, closed stores.

Whatever is handed in, errors are foldlog's own, and what was readable stays readable.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from enum import Enum
from typing import Any

import pytest

import foldlog
from foldlog import (
    ArtifactScope,
    ConfigurationError,
    FoldlogError,
    LogCorrupt,
    LogUnavailable,
    PayloadError,
    StoreClosed,
)
from foldlog.envelope import CLEARED, Recorded, draft
from foldlog.log.port import Append
from foldlog.subjects import Subject
from tests.conftest import OpenStore
from tests.contract.test_clear import Sent
from tests.support.build import (
    binding,
    event,
    planner_event,
    steering,
    task,
    trajectory,
    update,
)
from tests.support.stores import appended

Call = Callable[[foldlog.Store], Awaitable[object]]


class Colour(Enum):
    RED = "red"


class FrozenDict(dict[str, int]):
    def __hash__(self) -> int:  # type: ignore[override]
        return 1


class OddZone(dt.tzinfo):
    def utcoffset(self, moment: dt.datetime | None) -> dt.timedelta:
        raise RuntimeError("no offset today")

    def dst(self, moment: dt.datetime | None) -> None:
        return None

    def tzname(self, moment: dt.datetime | None) -> str:
        return "odd"


class Lossy(foldlog.Trajectory):
    """Serialises to something from which no trajectory can be made."""

    def serialise(self) -> dict[str, Any]:
        return {"steps": []}


def unchecked_update(**fields: Any) -> foldlog.StateUpdate:
    return foldlog.StateUpdate.model_construct(**vars(update("bad")) | fields)


def unchecked_steering(**fields: Any) -> foldlog.SteeringEvent:
    return foldlog.SteeringEvent.model_construct(**vars(steering("bad")) | fields)


REFUSED: dict[str, Call] = {
    "task: a status that is none": lambda s: s.save_task(task(status="running")),
    "task: a type that is none": lambda s: s.save_task(task(task_type=None)),
    "task: a dict as its snapshot": lambda s: s.save_task(task(context_snapshot={1: 2})),
    "task: a text as its time": lambda s: s.save_task(task(updated_at="now")),
    "task: nothing": lambda s: s.save_task(None),  # type: ignore[arg-type]
    "update: a type that is none": lambda s: s.save_update(unchecked_update(update_type="NOPE")),
    "update: a text as its time": lambda s: s.save_update(unchecked_update(created_at="x")),
    "update: an integer beyond 64 bits": lambda s: s.save_update(
        unchecked_update(step_index=2**70)
    ),
    "update: fields that are missing": lambda s: s.save_update(
        foldlog.StateUpdate.model_construct(session_id="session", task_id="t", update_id="u")
    ),
    "steering: a type that is none": lambda s: s.save_steering(
        unchecked_steering(event_type="NOPE")
    ),
    "steering: fields that are missing": lambda s: s.save_steering(
        foldlog.SteeringEvent.model_construct(session_id="session", task_id="t", event_id="e")
    ),
    "event: nothing": lambda s: s.save_event(None),  # type: ignore[arg-type]
    "event: no payload": lambda s: s.save_event(event(payload=None)),
    "event: a text as payload": lambda s: s.save_event(event(payload="abc")),
    "event: a time beyond all time": lambda s: s.save_event(event(ts=10**400)),
    "event: a set of what only its class can hash": lambda s: s.save_event(
        event(payload={"x": {FrozenDict(a=1)}})
    ),
    "events: a bad one among good ones": lambda s: s.save_events([event(), event(payload=None)]),
    "planner event: no extra": lambda s: s.save_planner_event("t", planner_event(extra=None)),
    "memory: nothing": lambda s: s.save_memory_state("key", None),  # type: ignore[arg-type]
    "memory: two keys that are held as one": lambda s: s.save_memory_state(
        "key",
        {Colour.RED: 1, "red": 2},  # type: ignore[dict-item]
    ),
    "memory: a time zone that raises": lambda s: s.save_memory_state(
        "key", {"at": dt.datetime(2024, 5, 15, tzinfo=OddZone())}
    ),
    "pause: nothing": lambda s: s.save_planner_state("token", None),  # type: ignore[arg-type]
    "binding: no metadata": lambda s: s.save_remote_binding(binding(metadata=None)),
    "trajectory: nothing to restore it from": lambda s: s.save_trajectory(
        "trace", "session", Lossy("q")
    ),
    "trajectory: no steps": lambda s: s.save_trajectory("trace", "session", trajectory(steps=None)),
    "trajectory: steps that are none": lambda s: s.save_trajectory(
        "trace", "session", trajectory(steps=[{"action": {}}])
    ),
    "limit: a text": lambda s: s.list_updates("session", limit="5"),  # type: ignore[arg-type]
    "limit: nothing": lambda s: s.list_steering("session", limit=None),  # type: ignore[arg-type]
    "limit: half of one": lambda s: s.list_updates("session", limit=1.5),  # type: ignore[arg-type]
    "limit: of traces, nothing": lambda s: s.list_traces("session", limit=None),  # type: ignore[arg-type]
    "cursor: a list": lambda s: s.list_updates("session", since_id=[]),  # type: ignore[arg-type]
}


async def test_bad_input_is_refused_and_leaves_the_session_readable(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    before = await appended(store)
    for name, call in REFUSED.items():
        [refused] = await asyncio.gather(call(store), return_exceptions=True)
        assert isinstance(refused, PayloadError), (name, refused)
        assert await appended(store) == before, name
    await store.save_task(task())
    await store.save_update(update("good"))
    await store.save_steering(steering("good"))
    for reader in (store, await reopen()):
        assert await reader.list_tasks("session") == [task()]
        assert await reader.list_updates("session") == [update("good")]
        assert await reader.list_steering("session") == [steering("good")]


async def test_strict_steering_refuses_an_unknown_type_like_the_rest(reopen: OpenStore) -> None:
    store = await reopen(strict_steering=True)
    with pytest.raises(FoldlogError):
        await store.save_steering(unchecked_steering(event_type="NOPE"))
    assert await store.list_steering("session") == []


async def test_an_odd_consistency_is_refused(store: foldlog.Store) -> None:
    with pytest.raises(ConfigurationError):
        await store.load_history("trace", consistency=[])  # type: ignore[arg-type]


async def test_a_bare_value_of_an_enum_is_the_member(store: foldlog.Store) -> None:
    await store.save_update(unchecked_update(update_type="PROGRESS"))
    (saved,) = await store.list_updates("session")
    assert saved.update_type is foldlog.UpdateType.PROGRESS


async def test_text_is_held_as_it_is_not_as_it_shows_itself(store: foldlog.Store) -> None:
    class Masked(str):
        def __str__(self) -> str:
            return "another"

    await store.save_memory_state("key", {"plain": Masked("own"), "mixed": (Masked("own"),)})
    assert await store.load_memory_state("key") == {"plain": "own", "mixed": ("own",)}


# --- clearing -----------------------------------------------------------------------------------


async def test_clear_forgets_what_clear_session_remembered(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    await store.save_update(update("u"))
    await store.list_updates("session")
    await store.clear_session("session")
    await store.clear(store.log.namespace.name)
    await other.save_update(update("u"))
    for reader in (store, other, await reopen()):
        assert await reader.list_updates("session", consistency="strong") == [update("u")]


@pytest.mark.parametrize("id", ["~x~1", "~x~2", "~~", "~" + "0" * 40 + "~"])
async def test_ids_that_look_like_foldlogs_own_are_told_apart(
    store: foldlog.Store, id: str
) -> None:
    await store.save_update(update("~x~0"))
    await store.save_update(update("~~~"))
    await store.clear_session("session")
    await store.save_update(update(id))
    assert await store.list_updates("session") == [update(id)]


async def test_late_repeats_of_trajectories_leave_the_new_one(
    store: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = await reopen()
    sent = Sent(writer, monkeypatch)
    for query in "ABA":
        await writer.save_trajectory("trace", "session", trajectory(query))
    await store.clear_session("session")
    await store.save_trajectory("trace", "session", trajectory("C"))
    for _ in range(2):
        await sent.again()
    for reader in (store, writer, await reopen()):
        found = await reader.get_trajectory("trace", "session", consistency="strong")
        assert found == trajectory("C")


async def test_clearing_takes_effect_at_once_inside_a_block_that_fails(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    await store.save_update(update("old"))

    async def fail() -> None:
        async with store.atomic():
            await store.save_update(update("new"))
            await store.clear_session("session")
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    for reader in (store, await reopen()):
        assert await reader.list_updates("session", consistency="strong") == []
        assert await reader.sessions() == []


async def test_a_purge_that_was_cut_short_is_made_good_by_clearing_again(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut_short(subject: Subject, **bounds: object) -> None:
        raise LogUnavailable("away")

    await store.save_update(update("u", content="secret"))
    await store.save_trajectory("trace", "session", trajectory("secret"))
    await store.save_event(event("trace", payload={"k": "secret"}))
    monkeypatch.setattr(store._core.log, "purge", cut_short)
    with pytest.raises(LogUnavailable):
        await store.clear_session("session")
    monkeypatch.undo()
    await store.clear_session("session")
    for subject in await store._core.log.subjects():
        async for item in stored(store, subject):
            assert b"secret" not in item.payload


async def test_a_trace_saved_while_its_session_is_cleared_goes_too(
    store: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, append, saved = await reopen(), store._core.log.append, list[str]()
    await store.save_trajectory("first", "session", trajectory())
    await store.save_event(event("first"))

    async def meanwhile(appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        # Tombstones: however often they are put off, another trace is there.
        if any(a.subject.family == "traces" and a.drafts[0].type == CLEARED for a in appends):
            name = f"trace-{len(saved)}"
            saved.append(name)
            await other.save_event(event(name))
            await other.save_trajectory(name, "session", trajectory())
        return await append(appends, atomic=atomic)

    monkeypatch.setattr(store._core.log, "append", meanwhile)
    await store.clear_session("session")
    monkeypatch.undo()
    assert len(saved) > 3
    for reader in (store, other, await reopen()):
        assert await reader.list_traces("session", consistency="strong") == []
        for name in saved:
            assert await reader.load_history(name, consistency="strong") == []
            assert await reader.get_trajectory(name, "session", consistency="strong") is None
        assert await reader.sessions() == []


async def test_a_pause_is_consumed_once_though_its_view_is_made_anew_meanwhile(
    store: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first reader has decided, then stands still before its append, while the view it read is
    # dropped, somebody else consumes, and a second reader makes the view anew.
    other = await reopen()
    assert await store.load_planner_state("token") is None
    await store.save_planner_state("token", {"n": 1})
    reached, go = asyncio.Event(), asyncio.Event()
    append = store._core.log.append

    async def slow(appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        reached.set()
        await go.wait()
        return await append(appends, atomic=atomic)

    monkeypatch.setattr(store._core.log, "append", slow)
    first = asyncio.create_task(store.load_planner_state("token"))
    await reached.wait()
    monkeypatch.undo()
    await store.rebuild()
    consumed = await other.load_planner_state("token")
    assert await store.load_planner_state("token") is None
    go.set()
    assert [consumed, await first] == [{"n": 1}, None]


# --- what another program wrote -----------------------------------------------------------------

NEWER: dict[str, tuple[Call, Call]] = {
    "tasks": (lambda s: s.save_task(task()), lambda s: s.list_tasks("session")),
    "updates": (lambda s: s.save_update(update("u")), lambda s: s.list_updates("session")),
    "steering": (lambda s: s.save_steering(steering("e")), lambda s: s.list_steering("session")),
    "events": (lambda s: s.save_event(event()), lambda s: s.load_history("trace")),
    "planner": (
        lambda s: s.save_planner_event("trace", planner_event()),
        lambda s: s.list_planner_events("trace"),
    ),
    "memory": (lambda s: s.save_memory_state("k", {}), lambda s: s.load_memory_state("k")),
    "pauses": (lambda s: s.save_planner_state("t", {}), lambda s: s.load_planner_state("t")),
    "bindings": (
        lambda s: s.save_remote_binding(binding()),
        lambda s: s.list_bindings(trace_id="trace"),
    ),
    "trajectory": (
        lambda s: s.save_trajectory("trace", "session", trajectory()),
        lambda s: s.get_trajectory("trace", "session"),
    ),
}


async def test_a_payload_newer_than_this_program_is_named_not_guessed_at(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    for family, (save, _) in NEWER.items():
        await save(store)
        (subject,) = await store._core.log.subjects(family)
        (known,) = [item async for item in stored(store, subject)]
        newer = draft(known.type, known.payload, id="newer", v=known.v + 1)
        await store._core.log.append([Append(subject, (newer,))])
    again = await reopen()
    for _, load in NEWER.values():
        with pytest.raises(LogCorrupt, match="version 2 is newer"):
            await load(again)


# --- a closed store -----------------------------------------------------------------------------


async def in_atomic(store: foldlog.Store) -> None:
    async with store.atomic():
        await store.save_task(task())


CLOSED: dict[str, Call] = {
    "save_event": lambda s: s.save_event(event()),
    "save_events": lambda s: s.save_events([event()]),
    "load_history": lambda s: s.load_history("trace"),
    "save_remote_binding": lambda s: s.save_remote_binding(binding()),
    "list_trace_bindings": lambda s: s.list_bindings(trace_id="trace"),
    "mark_binding_terminal": lambda s: s.mark_binding_terminal(
        trace_id="trace", context_id="ctx", task_id="task"
    ),
    "save_planner_state": lambda s: s.save_planner_state("token", {}),
    "load_planner_state": lambda s: s.load_planner_state("token"),
    "save_memory_state": lambda s: s.save_memory_state("key", {}),
    "load_memory_state": lambda s: s.load_memory_state("key"),
    "save_task": lambda s: s.save_task(task()),
    "list_tasks": lambda s: s.list_tasks("session"),
    "save_update": lambda s: s.save_update(update("u")),
    "list_updates": lambda s: s.list_updates("session"),
    "save_steering": lambda s: s.save_steering(steering("e")),
    "list_steering": lambda s: s.list_steering("session"),
    "save_trajectory": lambda s: s.save_trajectory("trace", "session", trajectory()),
    "get_trajectory": lambda s: s.get_trajectory("trace", "session"),
    "list_traces": lambda s: s.list_traces("session"),
    "save_planner_event": lambda s: s.save_planner_event("trace", planner_event()),
    "list_planner_events": lambda s: s.list_planner_events("trace"),
    "watch_updates": lambda s: anext(aiter(s.watch_updates("session"))),
    "atomic": in_atomic,
    "clear_session": lambda s: s.clear_session("session"),
    "clear": lambda s: s.clear(s.log.namespace.name),
    "sessions": lambda s: s.sessions(),
    "health": lambda s: s.health(),
    "rebuild": lambda s: s.rebuild(),
    "artifact put": lambda s: s.artifact_store.put_bytes(b"x"),
    "artifact get": lambda s: s.artifact_store.get("id"),
    "artifact exists": lambda s: s.artifact_store.exists("id"),
    "artifact delete": lambda s: s.artifact_store.delete("id"),
    "artifact list": lambda s: s.artifact_store.list(scope=ArtifactScope(session_id="session")),
}


async def test_a_closed_store_refuses_everything(store: foldlog.Store) -> None:
    await store.save_task(task())
    await store.list_tasks("session")
    await store.close()
    calls = (call(store) for call in CLOSED.values())
    results = await asyncio.gather(*calls, return_exceptions=True)
    let_through = {
        name: result
        for name, result in zip(CLOSED, results, strict=True)
        if not isinstance(result, StoreClosed)
    }
    assert let_through == {}


async def stored(store: foldlog.Store, subject: Subject) -> AsyncIterator[Recorded]:
    """Every envelope that the log holds for the subject."""
    async for page in store._core.log.read(subject):
        for record in page:
            for item in record.envelopes:
                yield item
