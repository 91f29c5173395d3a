"""Clearing a scope of scoped state: its keys with their histories, its index, its blobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from foldlog.errors import AppendConflict
from foldlog.store.clearing import bury, clear_subject
from foldlog.store.journal import Journal
from foldlog.store.spills import Spills
from foldlog_projections import scoped, scopes


def scope_of_session(session_id: str) -> str:
    """The key of a subject that `Scope.session` gives a session."""
    return f"session:{session_id}"


async def clear_scope(journal: Journal, spills: Spills, name: str) -> None:
    """Erase a scope by its key of a subject. Fine if there is nothing.

    First every key gets its tombstone, so that no moment shows half a key; then what stands before
    them goes in one purge, however many there are. The index goes last: only what it knows leads
    to the keys and the blobs, so that a clearing that was cut short finds all of them again.

    Raises:
        LogUnavailable, AppendUnknown: some may remain; clearing again is safe.
    """
    buried: dict[str, str | int] = {}
    first, later, is_purged = 0, dict[str, int](), False
    while True:
        folded, head = await journal.read_at(scopes, name)
        state, blobs = folded.state, list(folded.state.blobs)
        stand: dict[str, str | int] = {key: each.version for key, each in state.entries.items()}
        stand.update(state.gone)
        left = [key for key, version in stand.items() if buried.get(key) != version]
        if left:
            seqs = await bury(journal, (journal.subject(scoped, name, key) for key in left))
            if first:
                later.update(zip(left, seqs, strict=True))
            else:
                first = min(seqs)
            buried |= {key: stand[key] for key in left}
            continue  # what was written before the first tombstone has to have one, too
        if first and not is_purged:
            # Made only now: of how many shards a log is shows when it is reached.
            branch = journal.log.namespace.branch(scoped.name, name)
            await journal.log.purge(branch, before=first)
            is_purged = True
        for key, seq in later.items():
            await journal.log.purge(journal.subject(scoped, name, key), before=seq)
        later.clear()
        for blob in blobs:
            await spills.delete(blob)
        try:
            # Not with a key that was written meanwhile, which nothing would find again.
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
