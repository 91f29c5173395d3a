"""Clearing: subjects that are emptied, and stay empty when a late writer retries.

A cleared subject gets a `subject.cleared` envelope, its tombstone, with the hashes of all ids that
it held, then what stands before it is purged. In that order, so that no moment shows half of it:
the fold starts anew at the tombstone, whether or not the purge has happened.

The sequence at which a tombstone stands names the *generation* that begins there: it grows with
every clearing, and nobody has to count. What is known to be of an older one is refused: a retry of
what was cleared by its id, here and in every fold; what waited in a spool meanwhile by what its
writer knew of the log (`foldlog.store.spool.delivery`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from foldlog.envelope import CLEARED, draft, upsert_id
from foldlog.errors import AppendConflict, AppendUnknown
from foldlog.log.port import Append
from foldlog.store.belonging import MARKER, OF_SESSION, OF_TRACE
from foldlog.store.journal import Journal
from foldlog.store.lineages import Lineages
from foldlog.subjects import Subject
from foldlog_projections import artifacts, lineage, traces
from foldlog_projections import trajectory as saved_trajectory
from foldlog_projections.fold import Cleared, Projection, clearing

if TYPE_CHECKING:
    from foldlog.store.artifacts import Artifacts
    from foldlog.store.contents import Contents
    from foldlog.store.scopes import Scopes

S = TypeVar("S")

_TELLING: Final = (*OF_SESSION, artifacts)
"""By these a session is known: it is there while one of them holds something."""

_BURIED_AT_ONCE: Final = 250


async def clear_subject(
    journal: Journal,
    projection: Projection[S],
    *keys: str,
    remember: bool = True,
    also: Sequence[Append] = (),
    head: int | None = None,
) -> S:
    """Empty the view of `keys`, and return what it held.

    With `remember`, what it held is refused from now on; else it may be saved again. `also`: what
    is appended in the moment in which it is emptied, if there is anything to empty. `head`: empty
    it only if it ends there.

    Raises:
        AppendConflict: it ends elsewhere than at `head`. It was not emptied.
        LogUnavailable, AppendUnknown: it may not be cleared; clearing again is safe.
    """
    subject = journal.subject(projection, *keys)
    while True:
        folded, end = await journal.read_at(projection, *keys)
        if head not in (None, end):
            raise AppendConflict(subject.name, head or 0, end)
        held = folded.state
        bodies = clearing(folded) if remember else []
        bodies = bodies or [msgspec.msgpack.encode(Cleared(b""))]
        if not folded.seen and end < folded.cleared_at + len(bodies):
            if folded.cleared_at:  # a clearing that was cut short may not have purged
                await _purge(journal, subject, before=folded.cleared_at)
            return held
        # Else it holds something, or the bytes of late writers that no fold has let in.
        tombstone = [draft(CLEARED, body, id=upsert_id(body)) for body in bodies]
        try:
            await journal.compare_and_append(subject, tombstone, end, also=also)
        except AppendConflict:
            if head is not None:
                raise
            continue  # somebody wrote in between: that goes too
        await _purge(journal, subject, before=end + 1)
        return held


async def bury(journal: Journal, subjects: Iterable[Subject]) -> list[int]:
    """Append a tombstone to each subject, which remembers nothing; return where they stand.

    Whatever a subject holds, nobody need have read it. What stands before is left to be purged.

    Raises:
        LogUnavailable, AppendUnknown: some may have theirs; doing it again is safe.
    """
    body = msgspec.msgpack.encode(Cleared(b""))
    tombstone = draft(CLEARED, body, id=upsert_id(body))
    found, waiting = list[int](), iter(subjects)
    while some := list(islice(waiting, _BURIED_AT_ONCE)):
        appends = [Append(subject, (tombstone,)) for subject in some]
        try:
            seqs = await journal.log.append(appends)
        except (AppendUnknown, asyncio.CancelledError):
            journal.unsettled(appends)
            raise
        for subject, seq in zip(some, seqs, strict=True):
            journal.views.acked(subject, seq)
        found += seqs
    return found


async def _purge(journal: Journal, subject: Subject, *, before: int) -> None:
    # In this order: who writes a snapshot looks afterwards whether the log still begins as it did.
    await journal.log.purge(subject, before=before)
    await journal.views.forget(subject)


class Clearing:
    """Removes sessions, and says which there are."""

    def __init__(
        self, journal: Journal, artifacts: Artifacts, contents: Contents, scopes: Scopes
    ) -> None:
        self._journal = journal
        self._artifacts = artifacts
        self._contents = contents
        self._scopes = scopes
        self._lineages = Lineages(journal)

    async def clear_session(self, session_id: str) -> None:
        """Remove a session with its tasks, updates, steering, traces, artifacts and its scope.

        A session's traces are those whose trajectory was saved in it, and `session:<id>`; with a
        trace go its events, planner events, bindings and trajectory. That a task names a trace
        does not make it the session's own. A late writer that saves again what was removed has no
        effect; a save with new content begins the session anew. What a fork shares with its origin
        stays with the origin.

        Raises:
            InvalidId: the id is empty.
            SessionHasForks: sessions that were forked from it still share it. Nothing was removed.
            LogUnavailable, AppendUnknown: some of it may remain; clearing again is safe.
        """
        origin = await self._lineages.close(session_id)
        marker = self._journal.subject(MARKER, session_id)
        marked = (draft(CLEARED, b"\xc0", id="session"),)
        # At once, also inside `atomic()`, as all that follows. Where it stands is the generation.
        generation = await self._journal.append_now(Append(marker, marked))
        await self._clear_trace(session_id, f"session:{session_id}")
        # The traces go before what leads to them, so that a clearing that was cut short finds
        # them again; and once more for those that were saved meanwhile.
        listed = await self._journal.read(traces, session_id, consistency="strong")
        done = list(listed.state)
        inherited = await self._lineages.inherited_traces(origin)
        for trace_id in done:
            await self._clear_trace(session_id, trace_id, is_inherited=trace_id in inherited)
        await self._artifacts.clear_session(session_id)
        await self._scopes.clear_session(session_id)
        for projection in OF_SESSION:
            if projection is not traces:
                await clear_subject(self._journal, projection, session_id)
        for trace_id in await clear_subject(self._journal, traces, session_id):
            if trace_id not in done:
                await self._clear_trace(session_id, trace_id)
        if origin is not None:
            await self._lineages.leave(session_id, origin)
            await clear_subject(self._journal, lineage, session_id, remember=False)
        await self._journal.log.purge(marker, before=generation)

    async def clear(self) -> None:
        """Remove everything in the namespace. For tests and fresh starts.

        Unlike `clear_session` it does not remember what there was. What is saved meanwhile is
        either cleared or stays; its records may take up space until the next clearing.

        Raises:
            LogUnavailable, AppendUnknown: some of it may remain; clearing again is safe.
        """
        await self._journal.settle()
        await self._artifacts.clear()
        await self._contents.clear()
        await self._scopes.clear_blobs()
        log = self._journal.log
        # Up to here every record belongs to a subject that is listed next. One whose first record
        # comes later may not be, and must not go without a trace: others may show it.
        heads = await log.heads()
        subjects = await log.subjects()
        sessions = {subject.keys[0] for subject in subjects if _tells_session(subject)}
        markers = [log.namespace.subject(MARKER, session_id) for session_id in sessions]
        everything = list(dict.fromkeys([*subjects, *markers]))
        await bury(self._journal, everything)
        for shard, head in enumerate(heads):
            await log.purge(shard, before=head + 1)
        await self._journal.views.drop_snapshots()
        await self._scopes.forget(None)

    async def sessions(self) -> list[str]:
        """Return the ids of all sessions that hold something, sorted.

        For operators: it lists subjects, at a cost that grows with their number.
        """
        subjects = await self._journal.log.subjects()
        cleared = {subject.keys[0] for subject in subjects if subject.family == MARKER}
        known = {subject.keys[0] for subject in subjects if _tells_session(subject)}
        return sorted([s for s in known if s not in cleared or await self._holds(s)])

    async def _clear_trace(
        self, session_id: str, trace_id: str, *, is_inherited: bool = False
    ) -> None:
        views = () if is_inherited else OF_TRACE
        await asyncio.gather(
            *(clear_subject(self._journal, projection, trace_id) for projection in views),
            clear_subject(self._journal, saved_trajectory, session_id, trace_id),
        )

    async def _holds(self, session_id: str) -> bool:
        folds = await asyncio.gather(
            *(self._journal.read(p, session_id, consistency="strong") for p in _TELLING)
        )
        return any(folded.state for folded in folds)


def _tells_session(subject: Subject) -> bool:
    # Artifacts without a session stand under two keys.
    return len(subject.keys) == 1 and any(subject.family == p.name for p in _TELLING)
