"""Whose a view is, and what a fork shares with the session that it comes from.

The views that belong to a session are cleared, erased, forked and compared with it. The subjects of
a fork read through to its origin's (`foldlog.log.forks`); its lineage leads to all the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from foldlog.envelope import Draft, draft
from foldlog.errors import LogCorrupt, LogUnavailable, SessionHasForks
from foldlog.kind import Key, Kind
from foldlog.log.port import Append, Log
from foldlog.position import LogPosition
from foldlog.store.core import open_block
from foldlog.store.decisions import At, Decided
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import dump, encode
from foldlog.store.primitives import Primitives
from foldlog.store.tombstones import clear_view
from foldlog.subjects import Subject, checked_id
from foldlog.views import Consistency, refold
from foldlog.views.fold import salvage
from foldlog_projections import belongings, lineage
from foldlog_projections.belongings import Belonging
from foldlog_projections.fold import Folded
from foldlog_projections.lineage import Began, Ended, Fork, Lineage


class Ownership(Primitives):
    """Which views belong to sessions, where sessions come from, and which go on from them."""

    @operation(nothing, writes=True)
    async def belong(self, session_id: str, key: Key[Any]) -> None:
        """Make a view part of a session: clearing or erasing the session removes it.

        Call it before the first save. Repeating it is free while the session is in memory. It acts
        at once, also inside `atomic()`. A view may be part of several sessions; the first one that
        is cleared removes it.

        Args:
            session_id: the session.
            key: the view: `kind(*keys)`.

        Raises:
            InvalidId: the session id is empty.
            ConfigurationError: the store does not know the kind.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: it may not be part of the
                session yet; calling again is safe.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        self._subject(key)  # refuses an unknown kind
        await self.add_belongings(session_id, key)

    async def add_belongings(self, session_id: str | None, *keys: Key[Any]) -> None:
        """Internal.

        Have views belong to a session if one is named: as `belong`, which may degrade.
        """
        if session_id is None:
            return
        checked_id(session_id, "session_id")
        listed = (await self.read(belongings.kind, session_id)).state
        appends = [self._listing(session_id, key) for key in keys if _entry(key) not in listed]
        if appends:
            drafts = tuple(draft for _, drafts in appends for draft in drafts)
            await self.append_atomically([Append(appends[0][0], drafts)])

    async def append_of_session(
        self, session_id: str | None, key: Key[Any], *appends: tuple[Subject, Sequence[Draft]]
    ) -> None:
        """Internal.

        Append as `append_drafts`, and have the view belong to the session if one is named.

        A later save costs nothing more while the session's list is in memory.
        """
        if session_id is None:
            await self.append_drafts(*appends)
            return
        # Nothing is awaited before the append: saves keep their order.
        subject = self.subject(belongings.kind, checked_id(session_id, "session_id"))
        if self._lists(subject, key):
            await self.append_drafts(*appends)
        else:
            await self.append_drafts(*appends, before=[self._listing(session_id, key)])
        if self.hot_views.current(subject) is None:
            await self._look_again(session_id, key)

    async def _look_again(self, session_id: str, key: Key[Any]) -> None:
        """Read the list, which another process may have cleared, and keep it in memory."""
        try:
            folded = await self.read(belongings.kind, session_id)
            if open_block(self) is None and _entry(key) not in folded.state:
                await self.append_drafts(self._listing(session_id, key))
        except (LogUnavailable, LogCorrupt):
            return  # what was saved is saved; the next save looks again

    def _lists(self, subject: Subject, key: Key[Any]) -> bool:
        view = self.hot_views.peek(belongings.kind, subject)
        return view is not None and _entry(key) in view.folded.state

    def _listing(self, session_id: str, key: Key[Any]) -> tuple[Subject, list[Draft]]:
        return (
            self.subject(belongings.kind, session_id),
            [encode(belongings.kind, _entry(key))],
        )

    @property
    def session_kinds(self) -> list[Kind[Any]]:
        """Internal: the kinds with one view for each session, under its id alone."""
        return [kind for kind in self.kinds_of("session") if len(kind.keys) == 1]

    async def lineage_of(self, session_id: str, consistency: Consistency = "session") -> Lineage:
        """Internal: return a session's lineage. Use it before the next await; never change it."""
        return (await self.read(lineage.kind, session_id, consistency=consistency)).state

    def origin_log(self, began: Began) -> Log:
        """Internal: the log as of the moment at which a fork left its origin."""
        return self.log_at(LogPosition.parse(began.position))

    async def inherited(self, began: Began | None, kind: Kind[S]) -> S:
        """Internal.

        What a session's list had when the fork began: its views stay when the fork goes.
        """
        if began is None:
            return kind.initial()
        subject = self.subject(kind, began.session_id)
        return (await refold(self.origin_log(began), kind, subject)).state

    async def read_what_can_be(self, kind: Kind[S], *keys: str) -> Folded[S]:
        """Internal: read a view strongly, of all that can be read where some of it cannot."""
        try:
            return await self.read(kind, *keys, consistency="strong")
        except LogCorrupt:
            return await salvage(self.forked_log, kind, self.subject(kind, *keys))

    async def relatives(self, session_id: str) -> list[str]:
        """Internal: all other sessions that may share what this one holds, as of now."""
        found, ahead = set[str](), [session_id]
        while ahead:
            each = ahead.pop()
            if each not in found:
                found.add(each)
                known = await self.lineage_of(each, "strong")
                ahead += [*known.forks, *([known.origin.session_id] if known.origin else [])]
        return sorted(found - {session_id})

    async def close_lineage(self, session_id: str) -> Began | None:
        """Internal: let nobody fork a session as it was before now; return its origin."""
        key = lineage.kind(session_id)

        def origin_of(state: Lineage) -> Began | None:
            if state.forks:
                raise SessionHasForks(session_id, sorted(state.forks))
            return state.origin

        def decision(at: At) -> dict[Key[Any], Decided]:
            return {key: Decided([encode(key.kind, Ended())], origin_of(at.folded.state))}

        origin: Began | None
        try:
            origin = (await self.decide_drafts([key], decision, in_atomic="at once"))[key].value
        except LogCorrupt:
            origin = origin_of((await self.read_what_can_be(lineage.kind, session_id)).state)
            await clear_view(self, key, remember=False)
            await self.decide_drafts([key], decision, in_atomic="at once")
        return origin

    async def leave_origin(self, session_id: str, origin: Began) -> None:
        """Internal.

        Have the origin of a session that was cleared forget it. Leaving again is safe.
        """
        ended = draft(lineage.ENDED, dump(Fork(session_id)), id=f"ended:{session_id}")
        parent = self.subject(lineage.kind, origin.session_id)
        await self.append_atomically([Append(parent, (ended,))])


def _entry(key: Key[Any]) -> Belonging:
    return Belonging(key.kind.name, key.keys)


class OfSession(Protocol):
    """What names its session."""

    session_id: str


S = TypeVar("S")
T = TypeVar("T", bound=OfSession)


def as_of_session(items: list[T], session_id: str) -> list[T]:
    """A session's items, as its own: what a fork shares was saved under its origin's name."""
    for item in items:
        if item.session_id != session_id:
            item.session_id = session_id
    return items
