"""Clearing a scope of scoped state: its keys with their histories, its index, its blobs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from foldlog.errors import AppendConflict
from foldlog.store.clearing import clear_subject
from foldlog.store.journal import Journal
from foldlog.store.spills import Spills
from foldlog_projections import scoped, scopes

_AT_ONCE: Final = 16


def scope_of_session(session_id: str) -> str:
    """The key of a subject that `Scope.session` gives a session."""
    return f"session:{session_id}"


async def clear_scope(journal: Journal, spills: Spills, name: str) -> None:
    """Erase a scope by its key of a subject. Fine if there is nothing.

    Raises:
        LogUnavailable, AppendUnknown: some may remain; clearing again is safe.
    """
    cleared: dict[str, str | int] = {}
    while True:
        folded, head = await journal.read_at(scopes, name)
        state, blobs = folded.state, list(folded.state.blobs)
        stand: dict[str, str | int] = {key: each.version for key, each in state.entries.items()}
        stand.update(state.gone)
        left = [key for key, version in stand.items() if cleared.get(key) != version]
        for start in range(0, len(left), _AT_ONCE):
            some = left[start : start + _AT_ONCE]
            await asyncio.gather(
                *(clear_subject(journal, scoped, name, key, remember=False) for key in some)
            )
            cleared |= {key: stand[key] for key in some}
        for blob in blobs:
            await spills.delete(blob)
        try:
            # Only what it knows leads to the keys and the blobs: it goes last, and not with a key
            # that was written meanwhile, which no list, search or clearing would find again.
            await clear_subject(journal, scopes, name, remember=False, head=head)
        except AppendConflict:
            continue
        return


class Scopes:
    """The scopes of a store, as its clearing sees them.

    Args:
        forget: has what is kept of a session's scope beside the log forgotten; None: of all.
    """

    def __init__(
        self, journal: Journal, spills: Spills, forget: Callable[[str | None], Awaitable[None]]
    ) -> None:
        self._journal = journal
        self._spills = spills
        self.forget = forget

    async def clear_session(self, session_id: str) -> None:
        """Erase a session's own scope. Errors as `clear_scope`."""
        await clear_scope(self._journal, self._spills, scope_of_session(session_id))
        await self.forget(session_id)

    async def clear_blobs(self) -> None:
        """Remove the blobs of all scopes. Errors as `Spills.clear`."""
        await self._spills.clear()
