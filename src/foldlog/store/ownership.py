"""Whose a view is: memory, pauses, bindings, executions and the like may belong to a session.

A view that belongs to a session is cleared, erased, forked and compared with it. The session's
`belongings` list it, from before, or together with, the first save.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foldlog.envelope import Draft
from foldlog.errors import LogCorrupt, LogUnavailable
from foldlog.kind import Key
from foldlog.log.port import Append
from foldlog.store.block import open_block
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import encode
from foldlog.store.primitives import Primitives
from foldlog.subjects import Subject, checked_id
from foldlog_projections import belongings
from foldlog_projections.belongings import Belonging


class Ownership(Primitives):
    """Has views belong to sessions."""

    @operation(nothing, writes=True)
    async def belong(self, session_id: str, key: Key[Any]) -> None:
        """Have a view belong to a session: clearing and erasing the session takes it along.

        Call it before the first save. Repeating it is free while the session is in memory. It acts
        at once, also inside `atomic()`. A view may belong to several sessions; the first one that
        is cleared takes it.

        Raises:
            InvalidId: the session id is empty. ConfigurationError: the store has no such kind.
            LogUnavailable, LogCorrupt, AppendUnknown: it may not belong yet; repeating is safe.
        """
        self._subject(key)  # refuses an unknown kind
        await self.add_belongings(session_id, key)

    async def add_belongings(self, session_id: str | None, *keys: Key[Any]) -> None:
        """Have views belong to a session if one is named: as `belong`, which may degrade."""
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
        """Append as `append_drafts`, and have the view belong to the session if one is named.

        A later save costs nothing more while the session's list is in memory. Errors as
        `append_drafts`.
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


def _entry(key: Key[Any]) -> Belonging:
    return Belonging(key.kind.name, key.keys)
