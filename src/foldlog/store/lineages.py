"""Lineages: what a fork shares with the session it comes from, and which sessions may be removed.

A fork's subjects read through to its origin's (`foldlog.log.forks`). The lineage leads to what
stands elsewhere: the origin's traces and trajectories, and the artifacts whose bytes are shared.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from foldlog.envelope import draft
from foldlog.errors import LogCorrupt, SessionHasForks
from foldlog.kind import Key, Kind
from foldlog.log.port import Append, Log
from foldlog.position import LogPosition
from foldlog.store.decisions import At, Decided
from foldlog.store.ownership import Ownership
from foldlog.store.payloads import dump, encode
from foldlog.store.tombstones import clear_view
from foldlog.views import Consistency, refold
from foldlog.views.salvage import salvage
from foldlog_projections import lineage
from foldlog_projections.fold import Folded
from foldlog_projections.lineage import Began, Ended, Fork, Lineage


class OfSession(Protocol):
    """What names its session."""

    session_id: str


S = TypeVar("S")
T = TypeVar("T", bound=OfSession)


class Lineages(Ownership):
    """Where sessions come from, and which go on from them."""

    @property
    def session_kinds(self) -> list[Kind[Any]]:
        """The kinds of which a session has one view, under its id alone."""
        return [kind for kind in self.kinds_of("session") if len(kind.keys) == 1]

    async def lineage_of(self, session_id: str, consistency: Consistency = "session") -> Lineage:
        """Return a session's lineage. Use it before the next await; never change it."""
        return (await self.read(lineage.kind, session_id, consistency=consistency)).state

    def origin_log(self, began: Began) -> Log:
        """The log as of the moment at which a fork left its origin."""
        return self.log_at(LogPosition.parse(began.position))

    async def inherited(self, began: Began | None, kind: Kind[S]) -> S:
        """What a session's list had when the fork began: its views stay when the fork goes."""
        if began is None:
            return kind.initial()
        subject = self.subject(kind, began.session_id)
        return (await refold(self.origin_log(began), kind, subject)).state

    async def read_what_can_be(self, kind: Kind[S], *keys: str) -> Folded[S]:
        """Read a view strongly, of all that can be read where some of it cannot.

        Errors as `salvage`.
        """
        try:
            return await self.read(kind, *keys, consistency="strong")
        except LogCorrupt:
            return await salvage(self.forked_log, kind, self.subject(kind, *keys))

    async def relatives(self, session_id: str) -> list[str]:
        """All other sessions that may share what this one holds, as of now."""
        found, ahead = set[str](), [session_id]
        while ahead:
            each = ahead.pop()
            if each not in found:
                found.add(each)
                known = await self.lineage_of(each, "strong")
                ahead += [*known.forks, *([known.origin.session_id] if known.origin else [])]
        return sorted(found - {session_id})

    async def close_lineage(self, session_id: str) -> Began | None:
        """Let nobody fork a session as it was before now; return its origin.

        Raises:
            SessionHasForks: they share what would go. Nothing was appended.
            Others as `decide`.
        """
        origin: Began | None = None

        def close(state: Lineage) -> None:
            nonlocal origin
            if state.forks:
                raise SessionHasForks(session_id, sorted(state.forks))
            origin = state.origin

        key = lineage.kind(session_id)

        def decision(at: At) -> dict[Key[Any], Decided]:
            close(at.folded.state)
            return {key: Decided([encode(key.kind, Ended())])}

        try:
            await self.decide_drafts([key], decision, in_atomic="at once")
        except LogCorrupt:
            close((await self.read_what_can_be(lineage.kind, session_id)).state)
            known = origin
            await clear_view(self, key, remember=False)
            await self.decide_drafts([key], decision, in_atomic="at once")
            return known
        return origin

    async def leave_origin(self, session_id: str, origin: Began) -> None:
        """Have the origin of a session that was cleared forget it. Leaving again is safe."""
        ended = draft(lineage.ENDED, dump(Fork(session_id)), id=f"ended:{session_id}")
        parent = self.subject(lineage.kind, origin.session_id)
        await self.append_atomically([Append(parent, (ended,))])


def as_of_session(items: list[T], session_id: str) -> list[T]:
    """A session's items, as its own: what a fork shares was saved under its origin's name."""
    for item in items:
        if item.session_id != session_id:
            item.session_id = session_id
    return items
