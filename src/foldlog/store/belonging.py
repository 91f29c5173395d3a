"""Which views belong to a session, of those whose keys alone do not tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foldlog.envelope import Draft
from foldlog.errors import LogCorrupt, LogUnavailable
from foldlog.kind import Key
from foldlog.log.port import Append
from foldlog.store.core import open_block
from foldlog.store.decisions import Decisions
from foldlog.store.payloads import encode
from foldlog.subjects import Subject, checked_id
from foldlog_projections import belongings
from foldlog_projections.belongings import Belonging


class Belongings(Decisions):
    """Enters views in the lists of the sessions that they belong to."""

    async def add_belongings(self, session_id: str | None, *keys: Key[Any]) -> None:
        """Internal: have views belong to a session, if one is named. Errors as `Log.append`."""
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
        # A clearing may have come in between.
        if self.hot_views.current(subject) is None or not self._lists(subject, key):
            await self._look_again(session_id, key)

    async def _look_again(self, session_id: str, key: Key[Any]) -> None:
        """Read the list, which may have been cleared meanwhile, and keep it in memory."""
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


def owner_entered(key: Key[Any]) -> str | None:
    """Return the session in whose list a view is entered, for its keys do not tell it otherwise."""
    return key.kind.session_of(key.keys) if callable(key.kind.owner) else None


def _entry(key: Key[Any]) -> Belonging:
    return Belonging(key.kind.name, key.keys)
