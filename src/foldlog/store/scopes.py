"""Clearing a scope of scoped state: its keys with their histories, its index, its blobs."""

from __future__ import annotations

from contextlib import aclosing

import msgspec

from foldlog.envelope import draft, upsert_id
from foldlog.errors import AppendConflict, LogCorrupt
from foldlog.log.port import Append
from foldlog.store.blobs import BlobStore
from foldlog.store.payloads import dump
from foldlog.store.primitives import Primitives
from foldlog.store.tombstones import bury, clear_view
from foldlog.views.salvage import readable, salvage
from foldlog_projections import scoped, scopes
from foldlog_projections.blobs import Claim
from foldlog_projections.scoped import Written
from foldlog_projections.scopes import Deleted


def scope_of_session(session_id: str) -> str:
    """The subject key of a session's own scope, which `Scope.session` gives it."""
    return f"session:{session_id}"


def claim_of(scope: str, version: str) -> Claim:
    """The claim of a version of a value on its blob; the scope by its subject key."""
    return Claim(scopes.kind.name, (scope,), version)


async def is_claim_used(store: Primitives, sha256: str, claim: Claim) -> bool:
    """Whether a scope still holds the version of a claim, as `BlobStore.collect` asks."""
    folded = await store.read(scopes.kind, *claim.keys, consistency="strong")
    return claim.id in folded.state.blobs


async def clear_scope(store: Primitives, blobs: BlobStore, name: str) -> None:
    """Erase a scope by its subject key. Fine if there is nothing.

    First every key gets its tombstone, so that no moment shows half a key; then one purge takes
    what stands before them, however many keys there are. The index goes last: only the index leads
    to the keys and the blobs, so another clearing can finish one that was interrupted.

    Raises:
        LogUnavailable, AppendUnknown: some may remain; clearing again is safe.
    """
    buried: dict[str, str | int] = {}
    first, later, is_purged = 0, dict[str, int](), False
    while True:
        stand: dict[str, str | int] = {}
        try:
            folded, head = await store.read_at(scopes.kind, name)
        except LogCorrupt:
            subject = store.subject(scopes.kind, name)
            folded, head = await salvage(store.forked_log, scopes.kind, subject), None
            stand |= {key: 0 for _, (_, key) in await store.keys(scoped.kind, (name,))}
        state, stored = folded.state, list(folded.state.blobs.items())
        stand |= {key: each.version for key, each in state.entries.items()}
        stand |= state.gone
        left = [key for key, version in stand.items() if buried.get(key) != version]
        if left:
            seqs = await bury(store, (store.subject(scoped.kind, name, key) for key in left))
            if first:
                later.update(zip(left, seqs, strict=True))
            else:
                first = min(seqs)
            buried |= {key: stand[key] for key in left}
            continue  # a key written before the first tombstone needs one, too
        if first and not is_purged:
            # Made only now: how many shards a log has is known once it is connected.
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


async def clear_key(store: Primitives, blobs: BlobStore, name: str, key: str) -> None:
    """Erase one key of a scope, by the scope's subject key: its values, past ones too, its links.

    Raises:
        LogUnavailable, AppendUnknown: some may remain; clearing again is safe.
    """
    subject = store.subject(scoped.kind, name, key)
    stored: dict[str, str] = {}
    async with aclosing(readable(store.log, subject)) as pages:
        async for envelopes in pages:
            for envelope in envelopes:
                if envelope.type == scoped.WRITTEN:
                    blob = msgspec.msgpack.decode(envelope.payload, type=Written).blob
                    stored |= {envelope.id: blob} if blob else {}
    body = dump(Deleted(key))
    deleted = draft(scopes.DELETED, body, id=upsert_id(body))
    index = Append(store.subject(scopes.kind, name), (deleted,))
    await clear_view(store, scoped.kind(name, key), remember=False, also=[index])
    for version, blob in stored.items():
        await blobs.release(blob.partition("-")[0], claim_of(name, version))
