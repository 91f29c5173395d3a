"""Clearing: sessions that are removed, and stay removed when a late writer retries.

The sequence of a session's tombstone names the *generation* that begins there. What belongs to an
older one is refused: a retry of what was cleared by its id, in every fold; what waited in a spool
by what its writer knew of the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from foldlog.envelope import CLEARED, draft
from foldlog.errors import ConfigurationError, LogCorrupt
from foldlog.kind import Key, Kind
from foldlog.log.port import Append
from foldlog.store.belonging import MARKER
from foldlog.store.operation import nothing, operation
from foldlog.store.removal import Removal
from foldlog.store.scopes import contents, scope_of_session
from foldlog.store.spool import Drafts
from foldlog.store.tombstones import bury, clear_view
from foldlog.store.waiting import forget_views
from foldlog.subjects import Subject
from foldlog_projections import (
    belongings,
    blobs,
    lineage,
    scoped,
    scopes,
    traces,
    trajectory as trajectories,
)
from foldlog_projections.belongings import Belonging
from foldlog_projections.folds import every
from foldlog_projections.lineage import Began

_AT_ONCE: Final = 32
"""Views that are read or cleared side by side."""


class Clearing(Removal):
    """Removes sessions, and lists them. The kinds declare what is a session's."""

    @operation(nothing, writes=True)
    async def clear_session(self, session_id: str) -> None:
        """Remove a session with its tasks, updates, steering, traces, artifacts and its scope.

        Its traces are those whose trajectory was saved in it, and `session:<id>`, each with its
        events, planner events, bindings and trajectory; a trace that only a task names stays.
        With it go its memory (keys that end in its id), and what was saved with its `session_id`:
        executions, agents' scopes, scoped keys, pauses, bindings, and what `belong` names.
        Saving again what was removed has no effect; a save with new content begins the session
        anew. What a fork shares with its origin stays with the origin.

        Raises:
            InvalidId: the id is empty.
            SessionHasForks: sessions that were forked from it still share it. Nothing was removed.
            LogUnavailable, AppendUnknown: some of it may remain; clearing again is safe.
            ConfigurationError: so, because the server denies deletes or a spool file cannot be
                written.
        """
        origin = await self.close_lineage(session_id)
        marker = self.subject(MARKER, session_id)
        # At once, also inside `atomic()`, as all that follows. Its sequence is the generation.
        marked = Append(marker, (draft(CLEARED, b"\xc0", id="session"),))
        [generation] = await self.append_atomically([marked])
        views = await self.views_of_session(session_id, origin)
        lists = [traces.kind(session_id), belongings.kind(session_id)]
        await self._remove_all([key for key in views if key not in lists])
        # What lists the others goes last, so that another clearing can finish an interrupted one.
        names = await clear_view(self, traces.kind(session_id))
        belonging = await clear_view(self, belongings.kind(session_id), remember=False)
        late = [*self._views_of_traces(session_id, names), *self._views_of(belonging)]
        kept = await self._inherited_views(session_id, origin)
        await self._remove_all([key for key in late if key not in {*views, *kept}])
        await forget_views(self, [*views, *late])
        for scope in {key.keys[0] for key in views if key.kind in (scoped.kind, scopes.kind)}:
            await self._forget_scope(scope)
        await self._forget_spooled(session_id, [*views, *late])
        if origin is not None:
            await self.leave_origin(session_id, origin)
            await clear_view(self, lineage.kind(session_id), remember=False)
        await self.forked_log.purge(marker, before=generation)

    @operation(nothing, writes=True)
    async def clear(self) -> None:
        """Remove everything in the namespace. For tests and fresh starts.

        Unlike `clear_session` it does not remember what there was. What is saved meanwhile is
        either cleared or stays.

        Raises:
            LogUnavailable, AppendUnknown: some of it may remain; clearing again is safe.
        """
        await self.settle()
        log = self.forked_log
        # Up to here every record belongs to a subject that is listed next. One whose first record
        # comes later may not be, and must not go without a tombstone: others may show it.
        heads = await log.heads()
        subjects = [each for each in await log.subjects() if each.family != blobs.kind.name]
        sessions = {subject.keys[0] for subject in subjects if self._is_of_session(subject)}
        markers = [log.namespace.subject(MARKER, session_id) for session_id in sessions]
        await bury(self, dict.fromkeys([*subjects, *markers]))
        await self._blobs.clear()  # now that nothing refers to them
        for shard, head in enumerate(heads):
            await log.purge(shard, before=head + 1)
        await self.hot_views.drop_snapshots()
        await self._forget_scope(None)

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
        for start in range(0, len(doubtful), _AT_ONCE):
            some = doubtful[start : start + _AT_ONCE]
            held = await asyncio.gather(*map(self._holds, some))
            found |= {each for each, holds in zip(some, held, strict=True) if holds}
        return sorted(found)

    async def views_of_session(self, session_id: str, origin: Began | None) -> list[Key[Any]]:
        """All views that are a session's; what its origin shares is not.

        Those that the kinds declare; its traces'; its scope, whose keys a kind cannot tell from
        those of other scopes; and those that its `belongings` list.
        """
        listed = (await self.read_what_can_be(traces.kind, session_id)).state
        belonging = (await self.read_what_can_be(belongings.kind, session_id)).state
        views = self._views_of_traces(session_id, [f"session:{session_id}", *listed])
        for kind in self.kinds_of("session"):
            if len(kind.keys) == 1:
                views.append(kind(session_id))
            elif kind is not trajectories.kind:
                views += await self.keys(kind, (session_id,))
        views += self._views_of(belonging)
        scope = scope_of_session(session_id)
        views += [scoped.kind(scope, key) for key in (await contents(self, scope)).keys]
        kept = await self._inherited_views(session_id, origin)
        return [key for key in dict.fromkeys([*views, scopes.kind(scope)]) if key not in kept]

    async def _inherited_views(self, session_id: str, origin: Began | None) -> set[Key[Any]]:
        """What a fork only shares: the views of its origin's traces and belongings."""
        if origin is None:
            return set()
        names = await self.inherited(origin, traces.kind)
        belonging = await self.inherited(origin, belongings.kind)
        views = [kind(name) for name in names for kind in self.kinds_of("trace")]
        return {*views, *self._views_of(belonging)}

    def _views_of_traces(self, session_id: str, names: Iterable[str]) -> list[Key[Any]]:
        views: list[Key[Any]] = []
        for name in names:
            views += [kind(name) for kind in self.kinds_of("trace")]
            views.append(trajectories.kind(session_id, name))
        return views

    def _views_of(self, belonging: Iterable[Belonging]) -> list[Key[Any]]:
        return [Key(self.kinds.get(each.kind) or _unknown(each), each.keys) for each in belonging]

    async def _forget_spooled(self, session_id: str, views: Iterable[Key[Any]]) -> None:
        """Remove what is a session's from spool files: what was refused, and of killed writers."""
        place = self.backend.place
        if place is None:
            return
        known = {(key.kind.family, key.keys) for key in views}
        families = {kind.family for kind in self.kinds_of("session")}
        scope = scope_of_session(session_id)  # also the name of its own trace

        def is_erased(drafts: Drafts) -> bool:
            first = drafts.keys[0]
            is_own = first == scope or (first == session_id and drafts.family in families)
            return is_own or (drafts.family, drafts.keys) in known

        try:
            await asyncio.to_thread(place.erase, is_erased)
        except OSError as error:
            raise ConfigurationError(
                f"the spool directory {place.directory} may still hold what was cleared "
                f"({error}): see to it that it can be written, and clear again"
            ) from error

    async def _holds(self, session_id: str) -> bool:
        try:
            folds = await asyncio.gather(
                *(self.read(kind, session_id, consistency="strong") for kind in self.session_kinds)
            )
        except LogCorrupt:
            return True
        return any(folded.state for folded in folds)

    def _is_of_session(self, subject: Subject) -> bool:
        # Artifacts without a session stand under two keys.
        return len(subject.keys) == 1 and any(
            subject.family == kind.name for kind in self.session_kinds
        )


def _unknown(belonging: Belonging) -> Kind[Any]:
    """A kind that this program does not know: its records can be removed all the same."""
    keys = tuple(f"key_{number}" for number, _ in enumerate(belonging.keys))
    return Kind(belonging.kind, keys=keys, fold=every)
