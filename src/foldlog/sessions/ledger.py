"""Writing to a session: decide on how it stands, then append if it still stands so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foldlog.envelope import Draft
from foldlog.kind import Key, Kind
from foldlog.sessions.standing import Entry, Standing
from foldlog.store.payloads import encode
from foldlog.store.primitives import At, Decided
from foldlog.store.steering import STEERING, draft_steering
from foldlog.store.store import BaseStore
from foldlog.store.updates import UPDATES
from foldlog.views import Consistency
from foldlog_projections import session, steering, tasks, updates

Decide = Callable[[Standing], Entry | None]
"""Given a session as it stands: what to append, None for nothing. No I/O; it changes nothing of
what it is given and keeps nothing of it. What it raises, the writer gets.
"""


class Ledger:
    """One session, for those who write to it."""

    def __init__(self, journal: BaseStore, session_id: str) -> None:
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

    async def write(
        self, decide: Decide, *, also_on: Kind[Any] | None = None, unless_seen: str | None = None
    ) -> Entry | None:
        """Append what `decide` says, all of it or nothing, and return it.

        It is asked again whenever somebody else has written meanwhile. Never part of
        `store.atomic()`.

        Args:
            also_on: a third kind of the session's that must not have been written to meanwhile.
            unless_seen: an id of that kind. If the session has seen it, nothing is done.

        Raises:
            AppendConflict: others wrote all the time.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: see `foldlog.errors`.
        """
        made: Entry | None = None

        def decision(saved: At, folded: At, third: At | None = None) -> dict[Key[Any], Decided]:
            nonlocal made
            made = None
            if third is None or unless_seen not in third.folded.seen:
                made = decide(Standing(self.session_id, saved.folded.state, folded.folded.state))
            return {} if made is None else self._decided(made)

        kinds: list[Kind[Any]] = [tasks.kind, session.kind]
        if also_on is not None:
            kinds.append(also_on)
        await self.journal.decide_drafts([kind(self.session_id) for kind in kinds], decision)
        return made

    def _decided(self, entry: Entry) -> dict[Key[Any], Decided]:
        drafts: dict[Kind[Any], list[Draft]] = {
            tasks.kind: entry.tasks,
            session.kind: entry.session,
            updates.kind: [encode(updates.kind, UPDATES.record(each)) for each in entry.updates],
            steering.kind: [
                draft_steering(STEERING.record(each), strict=True) for each in entry.steering
            ],
        }
        return {kind(self.session_id): Decided(found) for kind, found in drafts.items()}
