"""Clearing: sessions that are removed, and stay removed when a late writer retries.

The sequence at which a tombstone stands (`foldlog.store.tombstones`) names the *generation* that
begins there: it grows with every clearing, and nobody has to count. What is known to be of an older
one is refused: a retry of what was cleared by its id, here and in every fold; what waited in a
spool meanwhile by what its writer knew of the log (`foldlog.store.spool.delivery`).
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from foldlog.envelope import CLEARED, draft
from foldlog.kind import Kind
from foldlog.log.port import Append
from foldlog.store.artifacts import Artifacts
from foldlog.store.belonging import MARKER
from foldlog.store.blobs import BlobStore
from foldlog.store.lineages import Lineages
from foldlog.store.operation import nothing, operation
from foldlog.store.scopes import Scopes
from foldlog.store.tombstones import bury, clear_view
from foldlog.subjects import Subject
from foldlog_projections import artifacts, lineage, traces, trajectory as trajectories

_LOOKED_AT_ONCE: Final = 32
"""Sessions whose views are read side by side."""


class Clearing(Lineages):
    """Removes sessions, and says which there are. What is a session's, the kinds say."""

    _artifacts: Artifacts
    _blobs: BlobStore
    _scopes: Scopes

    @operation(nothing, writes=True)
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
        await self.clear_all_of(session_id)

    async def clear_all_of(self, session_id: str) -> None:
        """As `clear_session`, and raises where a degrading store would not."""
        origin = await self.close_lineage(session_id)
        marker = self.subject(MARKER, session_id)
        marked = Append(marker, (draft(CLEARED, b"\xc0", id="session"),))
        # At once, also inside `atomic()`, as all that follows. Where it stands is the generation.
        [generation] = await self.append_atomically([marked])
        await self._clear_trace(session_id, f"session:{session_id}")
        # The traces go before what leads to them, so that a clearing that was cut short finds
        # them again; and once more for those that were saved meanwhile.
        listed = await self.read(traces.kind, session_id, consistency="strong")
        done = list(listed.state)
        inherited = await self.inherited_traces(origin)
        for trace_id in done:
            await self._clear_trace(session_id, trace_id, is_inherited=trace_id in inherited)
        await self._artifacts.clear_all_of(session_id)
        await self._scopes.clear_session(session_id)
        for kind in self.kinds_of("session"):
            if kind not in (traces.kind, artifacts.kind, trajectories.kind):
                await self._clear_kind(kind, session_id)
        for trace_id in await clear_view(self, traces.kind(session_id)):
            if trace_id not in done:
                await self._clear_trace(session_id, trace_id)
        if origin is not None:
            await self.leave_origin(session_id, origin)
            await clear_view(self, lineage.kind(session_id), remember=False)
        await self.forked_log.purge(marker, before=generation)

    @operation(nothing, writes=True)
    async def clear(self) -> None:
        """Remove everything in the namespace. For tests and fresh starts.

        Unlike `clear_session` it does not remember what there was. What is saved meanwhile is
        either cleared or stays; its records may take up space until the next clearing.

        Raises:
            LogUnavailable, AppendUnknown: some of it may remain; clearing again is safe.
        """
        await self.settle()
        await self._artifacts.clear_everything()
        await self._blobs.clear()
        log = self.forked_log
        # Up to here every record belongs to a subject that is listed next. One whose first record
        # comes later may not be, and must not go without a trace: others may show it.
        heads = await log.heads()
        subjects = await log.subjects()
        sessions = {subject.keys[0] for subject in subjects if self._is_of_session(subject)}
        markers = [log.namespace.subject(MARKER, session_id) for session_id in sessions]
        everything = list(dict.fromkeys([*subjects, *markers]))
        await bury(self, everything)
        for shard, head in enumerate(heads):
            await log.purge(shard, before=head + 1)
        await self.hot_views.drop_snapshots()
        await self._scopes.forget(None)

    @operation(list)
    async def sessions(self) -> list[str]:
        """Return the ids of all sessions that hold something, sorted.

        For operators: it lists subjects, at a cost that grows with their number.

        Raises:
            LogUnavailable, LogCorrupt: the log could not be read.
        """
        subjects = await self.forked_log.subjects()
        cleared = {subject.keys[0] for subject in subjects if subject.family == MARKER}
        known = {subject.keys[0] for subject in subjects if self._is_of_session(subject)}
        found, doubtful = known - cleared, sorted(known & cleared)
        for start in range(0, len(doubtful), _LOOKED_AT_ONCE):
            some = doubtful[start : start + _LOOKED_AT_ONCE]
            held = await asyncio.gather(*map(self._holds, some))
            found |= {each for each, holds in zip(some, held, strict=True) if holds}
        return sorted(found)

    async def _clear_kind(self, kind: Kind[Any], session_id: str) -> None:
        if len(kind.keys) == 1:
            await clear_view(self, kind(session_id))
            return
        for key in await self.keys(kind, (session_id,)):
            await clear_view(self, kind(*key.keys))

    async def _clear_trace(
        self, session_id: str, trace_id: str, *, is_inherited: bool = False
    ) -> None:
        kinds = [] if is_inherited else self.kinds_of("trace")
        await asyncio.gather(
            *(clear_view(self, kind(trace_id)) for kind in kinds),
            clear_view(self, trajectories.kind(session_id, trace_id)),
        )

    async def _holds(self, session_id: str) -> bool:
        folds = await asyncio.gather(
            *(self.read(k, session_id, consistency="strong") for k in self._of_session)
        )
        return any(folded.state for folded in folds)

    @property
    def _of_session(self) -> list[Kind[Any]]:
        """By these a session is known: it is there while one of them holds something."""
        return [kind for kind in self.kinds_of("session") if len(kind.keys) == 1]

    def _is_of_session(self, subject: Subject) -> bool:
        # Artifacts without a session stand under two keys.
        return len(subject.keys) == 1 and any(subject.family == k.name for k in self._of_session)
