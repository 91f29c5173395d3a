"""Clearing: subjects that are emptied, and stay empty when a late writer retries.

A cleared subject gets a `subject.cleared` envelope with the hashes of all ids that it held, then
what stands before it is purged. In that order, so that no moment shows half of it: the fold starts
anew at the envelope, whether or not the purge has happened.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from foldlog.envelope import CLEARED, draft, upsert_id
from foldlog.errors import AppendConflict
from foldlog.log.port import Append
from foldlog.store.journal import Journal, with_keys
from foldlog.subjects import Subject
from foldlog_projections import (
    artifacts,
    bindings,
    events,
    planner,
    steering,
    tasks,
    traces,
    updates,
)
from foldlog_projections import trajectory as saved_trajectory
from foldlog_projections.fold import Cleared, Projection, clearing

if TYPE_CHECKING:
    from foldlog.store.artifacts import Artifacts

S = TypeVar("S")

_MARKER: Final = "cleared"
"""A family without a view: its subjects tell which sessions were ever cleared."""

_OF_SESSION: Final[tuple[Projection[Any], ...]] = (tasks, updates, steering, traces)
_TELLING: Final = (*_OF_SESSION, artifacts)
"""By these a session is known: it is there while one of them holds something."""

_OF_TRACE: Final[tuple[Projection[Any], ...]] = (events, planner, bindings)


async def clear_subject(
    journal: Journal, projection: Projection[S], *keys: str, remember: bool = True
) -> S:
    """Empty the view of `keys`, and return what it held.

    With `remember`, what it held is refused from now on; else it may be saved again.

    Raises:
        LogUnavailable, AppendUnknown: it may not be cleared; clearing again is safe.
    """
    subject = journal.subject(projection, *keys)
    while True:
        folded = await journal.read(projection, *keys, consistency="strong")
        held, head = folded.state, journal.views.head(subject)
        if not folded.seen:
            return held
        bodies = clearing(folded) if remember else [msgspec.msgpack.encode(Cleared(b""))]
        tombstone = [draft(CLEARED, body, id=upsert_id(body)) for body in bodies]
        try:
            await journal.compare_and_append(subject, tombstone, head)
        except AppendConflict:
            continue  # somebody wrote in between: that goes too
        await journal.log.purge(subject, before=head + 1)
        return held


class Clearing:
    """Removes sessions, and says which there are."""

    def __init__(self, journal: Journal, artifacts: Artifacts) -> None:
        self._journal = journal
        self._artifacts = artifacts

    async def clear_session(self, session_id: str) -> None:
        """Remove a session with its tasks, updates, steering, traces and artifacts.

        A session's traces are those whose trajectory was saved in it, and `session:<id>`; with a
        trace go its events, planner events, bindings and trajectory. That a task names a trace
        does not make it the session's own. A late writer that saves again what was removed has no
        effect; a save with new content begins the session anew.

        Raises:
            InvalidId: the id is empty.
            LogUnavailable, AppendUnknown: some of it may remain; clearing again is safe.
        """
        trace_ids = await self._traces(session_id)
        marker = self._journal.subject(_MARKER, session_id)
        if await self._journal.log.last(marker) is None:
            await self._journal.append((marker, [draft(CLEARED, b"\xc0", id="session")]))
        # What leads to the traces goes last, so that a clearing that was cut short finds them
        # again.
        for trace_id in trace_ids:
            await asyncio.gather(
                *(clear_subject(self._journal, projection, trace_id) for projection in _OF_TRACE),
                clear_subject(self._journal, saved_trajectory, session_id, trace_id),
            )
        await self._artifacts.clear_session(session_id)
        await asyncio.gather(
            *(clear_subject(self._journal, projection, session_id) for projection in _OF_SESSION)
        )

    async def clear(self) -> None:
        """Remove everything in the namespace. For tests and fresh starts.

        Unlike `clear_session` it does not remember what there was.

        Raises:
            LogUnavailable, AppendUnknown: some of it may remain; clearing again is safe.
        """
        await self._artifacts.clear()
        log = self._journal.log
        subjects = await log.subjects()
        sessions = {s.keys[0] for s in subjects if _tells_session(s)}
        body = msgspec.msgpack.encode(Cleared(b""))
        markers = [log.namespace.subject(_MARKER, session_id) for session_id in sessions]
        everything = list(dict.fromkeys([*subjects, *markers]))
        if not everything:
            return
        tombstone = draft(CLEARED, body, id=upsert_id(body))
        tombstones = [Append(subject, with_keys(subject, [tombstone])) for subject in everything]
        seqs = await log.append(tombstones)
        for subject, seq in zip(everything, seqs, strict=True):
            self._journal.views.acked(subject, seq)
            await log.purge(subject, before=seq)

    async def sessions(self) -> list[str]:
        """Return the ids of all sessions that hold something, sorted.

        For operators: it lists subjects, at a cost that grows with their number.
        """
        subjects = await self._journal.log.subjects()
        cleared = {subject.keys[0] for subject in subjects if subject.family == _MARKER}
        known = {subject.keys[0] for subject in subjects if _tells_session(subject)}
        return sorted([s for s in known if s not in cleared or await self._holds(s)])

    async def _traces(self, session_id: str) -> list[str]:
        listed = await self._journal.read(traces, session_id, consistency="strong")
        return [*listed.state, f"session:{session_id}"]

    async def _holds(self, session_id: str) -> bool:
        folds = await asyncio.gather(
            *(self._journal.read(p, session_id, consistency="strong") for p in _TELLING)
        )
        return any(folded.state for folded in folds)


def _tells_session(subject: Subject) -> bool:
    # Artifacts without a session stand under two keys.
    return len(subject.keys) == 1 and any(subject.family == p.name for p in _TELLING)
