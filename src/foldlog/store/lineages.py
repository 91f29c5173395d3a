"""Lineages: what a fork shares with the session it comes from, and who may be removed when.

A fork's subjects read through to its origin's (`foldlog.log.forks`). What stands elsewhere is found
by the lineage: the traces and trajectories that were the origin's, and whose bytes still count.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol, TypeVar

from foldlog.envelope import draft, upsert_id
from foldlog.errors import AppendConflict, SessionHasForks
from foldlog.log.port import Append, Log
from foldlog.position import LogPosition
from foldlog.store.journal import Journal
from foldlog.store.payloads import dump
from foldlog.views import Consistency, refold
from foldlog_projections import lineage, traces
from foldlog_projections.lineage import Began, Fork, Lineage

CONTENTION_PAUSE: Final = 0.002
"""Seconds to let the write that a server saw in flight settle before looking again."""

_CLEARED: Final = b"\x80"


class OfSession(Protocol):
    """What names the session that it belongs to."""

    session_id: str


T = TypeVar("T", bound=OfSession)


class Lineages:
    """The lineages of one store's sessions."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def of(self, session_id: str, consistency: Consistency = "session") -> Lineage:
        """Return a session's lineage. Use it before the next await; never change it.

        Errors as `Journal.read`.
        """
        return (await self._journal.read(lineage, session_id, consistency=consistency)).state

    def origin_log(self, began: Began) -> Log:
        """The log as of the moment at which a fork left its origin."""
        return self._journal.log_at(LogPosition.parse(began.position))

    async def inherited_traces(self, began: Began | None) -> set[str]:
        """The traces that a fork shares with its origin: they stay when the fork goes."""
        if began is None:
            return set()
        subject = self._journal.subject(traces, began.session_id)
        return set((await refold(self.origin_log(began), traces, subject)).state)

    async def relatives(self, session_id: str) -> list[str]:
        """All sessions that may share what this one holds, itself not among them.

        Strongly: what follows from it is that bytes are removed.
        """
        found: set[str] = set()
        ahead = [session_id]
        while ahead:
            each = ahead.pop()
            if each in found:
                continue
            found.add(each)
            known = await self.of(each, "strong")
            ahead += [*known.forks, *([known.origin.session_id] if known.origin else [])]
        return sorted(found - {session_id})

    async def close(self, session_id: str) -> Began | None:
        """Have nobody fork a session from before now, as it is being cleared; return its origin.

        Raises:
            SessionHasForks: they share what would go. Nothing was appended.
            Others as `Journal.compare_and_append`.
        """
        subject = self._journal.subject(lineage, session_id)
        while True:
            folded, head = await self._journal.read_at(lineage, session_id)
            origin, forks = folded.state.origin, folded.state.forks
            if forks:
                raise SessionHasForks(session_id, sorted(forks))
            closed = draft(lineage.CLEARED, _CLEARED, id=upsert_id(_CLEARED))
            try:
                await self._journal.compare_and_append(subject, [closed], head)
            except AppendConflict as conflict:
                if conflict.actual is None:
                    await asyncio.sleep(CONTENTION_PAUSE)
                continue
            return origin

    async def leave(self, session_id: str, origin: Began) -> None:
        """Tell the origin of a session that was cleared that it is shared no more.

        Errors as `Log.append`. Leaving again is safe.
        """
        ended = draft(lineage.ENDED, dump(Fork(session_id)), id=f"ended:{session_id}")
        parent = self._journal.subject(lineage, origin.session_id)
        seq = await self._journal.append_now(Append(parent, (ended,)))
        self._journal.views.acked(parent, seq)


def own(items: list[T], session_id: str) -> list[T]:
    """A session's items, as its own: what a fork shares was saved under its origin's name."""
    for item in items:
        if item.session_id != session_id:
            item.session_id = session_id
    return items
