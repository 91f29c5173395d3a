"""Clearing a scope of scoped state: its keys with their histories, its index, its blobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from foldlog.errors import AppendConflict
from foldlog.store.blobs import BlobStore
from foldlog.store.primitives import Primitives
from foldlog.store.tombstones import bury, clear_view
from foldlog_projections import scoped, scopes
from foldlog_projections.blobs import Claim


def scope_of_session(session_id: str) -> str:
    """The key of a subject that `Scope.session` gives a session."""
    return f"session:{session_id}"


def claim_of(scope: str, version: str) -> Claim:
    """The claim of a version of a value on its blob; the scope by its key of a subject."""
    return Claim(scopes.kind.name, (scope,), version)


async def clear_scope(store: Primitives, blobs: BlobStore, name: str) -> None:
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
        folded, head = await store.read_at(scopes.kind, name)
        state, stored = folded.state, list(folded.state.blobs.items())
        stand: dict[str, str | int] = {key: each.version for key, each in state.entries.items()}
        stand.update(state.gone)
        left = [key for key, version in stand.items() if buried.get(key) != version]
        if left:
            seqs = await bury(store, (store.subject(scoped.kind, name, key) for key in left))
            if first:
                later.update(zip(left, seqs, strict=True))
            else:
                first = min(seqs)
            buried |= {key: stand[key] for key in left}
            continue  # what was written before the first tombstone has to have one, too
        if first and not is_purged:
            # Made only now: of how many shards a log is shows when it is reached.
            branch = store.forked_log.namespace.branch(scoped.kind.name, name)
            await store.forked_log.purge(branch, before=first)
            is_purged = True
        for key, seq in later.items():
            await store.forked_log.purge(store.subject(scoped.kind, name, key), before=seq)
        later.clear()
        for version, blob in stored:
            await blobs.release(blob.partition("-")[0], claim_of(name, version))
        try:
            # Not with a key that was written meanwhile, which nothing would find again.
            await clear_view(store, scopes.kind(name), remember=False, head=head)
        except AppendConflict:
            continue
        return


class Scopes:
    """The scopes of a store, as its clearing sees them.

    Args:
        forget: has what is kept of a session's scope beside the log forgotten; None: of all.
    """

    def __init__(
        self, store: Primitives, blobs: BlobStore, forget: Callable[[str | None], Awaitable[None]]
    ) -> None:
        self._store = store
        self._blobs = blobs
        blobs.users[scopes.kind.name] = self._is_used
        self.forget = forget

    async def clear_session(self, session_id: str) -> None:
        """Erase a session's own scope. Errors as `clear_scope`."""
        await clear_scope(self._store, self._blobs, scope_of_session(session_id))
        await self.forget(session_id)

    async def _is_used(self, sha256: str, claim: Claim) -> bool:
        folded = await self._store.read(scopes.kind, *claim.keys, consistency="strong")
        return claim.id in folded.state.blobs
