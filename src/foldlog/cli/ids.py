"""Ids that a person types: which there are, and an error that names the nearest ones."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import aclosing
from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar, Final

from foldlog.errors import FoldlogError

if TYPE_CHECKING:
    from foldlog.models import StoredEvent
    from foldlog.opening import Store

_FEW: Final = 5
"""So many ids are listed where none of them is near."""


class UnknownId(FoldlogError, LookupError):
    """The store holds nothing of that id. `near` are ids that it might have been meant as."""

    page: ClassVar[str] = "reference/cli/index#ids"

    def __init__(self, what: str, id: str, known: Collection[str], hint: str = "") -> None:
        self.id = id
        self.near: list[str] = get_close_matches(id, known, n=3)
        found = f"no {what} {id!r:.200}"
        if self.near:
            hint = f"did you mean {_listed(self.near, ' or ')}?"
        elif not known:
            hint = hint or f"there is no {what} at all"
        elif len(known) <= _FEW:
            hint = f"there are {_listed(sorted(known), ', ')}"
        super().__init__(f"{found}; {hint}" if hint else found)


async def check_recorded(store: Store, session_id: str) -> None:
    """Raise UnknownId if the log never held a record of a session. Lists sessions only then."""
    async with aclosing(store.records(session_id=session_id)) as records:
        async for _ in records:
            return
    await check_session(store, session_id)


async def check_session(store: Store, session_id: str) -> None:
    """Raise UnknownId if a session holds nothing."""
    known = await store.sessions()
    if session_id not in known:
        raise UnknownId("session", session_id, known, "" if not known else SESSIONS)


async def check_task(store: Store, session_id: str, task_id: str) -> None:
    """Raise UnknownId if there is no such session, or no such task in it."""
    known = await task_ids(store, session_id)
    if task_id not in known:
        await check_session(store, session_id)
        what = f"task in session {session_id!r:.200}:"
        raise UnknownId(what, task_id, known, f"`foldlog tasks {session_id}` lists them")


async def check_trace(store: Store, trace_id: str) -> None:
    """Raise UnknownId if no event was ever saved in a trace."""
    known = await trace_ids(store)
    if trace_id in known:
        return
    if trace_id in await store.sessions():
        traces = await session_traces(store, trace_id)
        there = f"its traces are {_listed(traces, ', ')}" if traces else "it has no traces"
        hint = f"session {trace_id!r:.200} has that name, and {there}"
        raise UnknownId("trace", trace_id, [], hint)
    raise UnknownId("trace", trace_id, known, "`foldlog traces SESSION` lists a session's")


async def events_of(
    store: Store, trace_id: str, moment: Store | None = None
) -> tuple[str, list[StoredEvent]]:
    """Return the events of a trace, or of the record that a session of that name writes itself.

    The trace's name comes first. `moment` is the store to read, where that is one of the past.

    Raises:
        UnknownId: there is neither.
    """
    read = moment or store
    for name in (trace_id, own_trace(trace_id)):
        if found := await read.load_history(name):
            return name, found
    if own_trace(trace_id) not in await trace_ids(store):
        await check_trace(store, trace_id)
    return trace_id, []


async def session_traces(store: Store, session_id: str, limit: int = 50) -> list[str]:
    """Return a session's traces, newest first, and last the one of its tasks' changes."""
    found = await store.list_traces(session_id, limit)
    own = own_trace(session_id)
    if len(found) < limit and own not in found and await store.load_history(own):
        found.append(own)
    return found


def own_trace(session_id: str) -> str:
    """The trace in which a session writes down its tasks, updates and steering."""
    return f"session:{session_id}"


async def trace_ids(store: Store) -> list[str]:
    """Return all traces that have events, feedback or the like."""
    from foldlog.store.core import core_of

    views = [await store.keys(kind) for kind in core_of(store).kinds_of("trace")]
    return list(dict.fromkeys(key.keys[0] for keys in views for key in keys))


async def task_ids(store: Store, session_id: str) -> list[str]:
    """Return the tasks of a session."""
    return [task.task_id for task in await store.list_tasks(session_id)]


SESSIONS: Final = "`foldlog sessions` lists them"


def _listed(ids: Collection[str], between: str) -> str:
    return between.join(f"{each!r:.200}" for each in ids)
