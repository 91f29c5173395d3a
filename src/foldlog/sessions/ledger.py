"""Writing to a session: decide on how it stands, then append if it still stands so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from foldlog.envelope import Draft
from foldlog.errors import AppendConflict, AppendUnknown
from foldlog.log.port import Append
from foldlog.sessions.standing import Entry, Standing
from foldlog.store.payloads import encode
from foldlog.store.steering import draft_steering
from foldlog.store.store import Store
from foldlog.store.updates import recorded_update
from foldlog.views import Consistency
from foldlog_projections import session, steering, tasks, updates
from foldlog_projections.fold import Projection

_CONTENTION_PAUSE: Final = 0.002
"""Seconds to let the write that a server saw in flight settle before looking again."""

Decide = Callable[[Standing], Entry | None]
"""Given a session as it stands: what to append, None for nothing. No I/O; it changes nothing of
what it is given and keeps nothing of it. What it raises, the writer gets.
"""


class Ledger:
    """One session, for those who write to it."""

    def __init__(self, journal: Store, session_id: str) -> None:
        self.journal = journal
        self.session_id = session_id
        journal.subject(session.kind, session_id)  # a bad id is refused before anything is read

    async def read(self, consistency: Consistency = "strong") -> Standing:
        """Return the session as of now. Use it before the next await; never change it.

        Raises:
            LogUnavailable, LogCorrupt: it could not be read.
        """
        # Tasks first: what the other subject says of a task is then never older than the task.
        saved = await self.journal.read(tasks.kind, self.session_id, consistency=consistency)
        folded = await self.journal.read(session.kind, self.session_id, consistency=consistency)
        return Standing(self.session_id, saved.state, folded.state)

    async def write(self, decide: Decide, *, unless_steered: str | None = None) -> Entry | None:
        """Append what `decide` says, all of it or nothing, and return it.

        It is asked again whenever somebody else has written meanwhile. Never part of
        `store.atomic()`.

        Args:
            unless_steered: a steering event's id. If the session has seen it, nothing is done.

        Raises:
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: see `foldlog.errors`.
        """
        while True:
            saved, tasks_head = await self.journal.read_at(tasks.kind, self.session_id)
            folded, session_head = await self.journal.read_at(session.kind, self.session_id)
            if unless_steered is not None:
                seen, _ = await self.journal.read_at(steering.kind, self.session_id)
                if unless_steered in seen.seen:
                    return None
            entry = decide(Standing(self.session_id, saved.state, folded.state))
            if entry is None:
                return None
            appends = self._appends(entry, tasks_head, session_head)
            if not appends:
                return entry
            try:
                seqs = await self.journal.forked_log.append(appends, atomic=True)
            except AppendConflict as conflict:
                if conflict.actual is None:
                    await asyncio.sleep(_CONTENTION_PAUSE)
                continue
            except (AppendUnknown, asyncio.CancelledError):
                self.journal.unsettled(appends)
                raise
            for append, seq in zip(appends, seqs, strict=True):
                self.journal.hot_views.acked(append.subject, seq)
            return entry

    def _appends(self, entry: Entry, tasks_head: int, session_head: int) -> list[Append]:
        said = [encode(updates.kind, recorded_update(update)) for update in entry.updates]
        steered = [draft_steering(event, strict=True) for event in entry.steering]
        return [
            *self._append(tasks.kind, entry.tasks, tasks_head),
            *self._append(session.kind, entry.session, session_head),
            *self._append(updates.kind, said),
            *self._append(steering.kind, steered),
        ]

    def _append(
        self, projection: Projection[Any], drafts: Sequence[Draft], head: int | None = None
    ) -> list[Append]:
        if not drafts:
            return []
        subject = self.journal.subject(projection, self.session_id)
        return [Append(subject, tuple(drafts), head)]
