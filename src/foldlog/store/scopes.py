"""Clearing a scope of scoped state: its keys with their histories, its changes, its blobs."""

from __future__ import annotations

from contextlib import aclosing, suppress
from functools import partial

import msgspec

from foldlog import envelope
from foldlog.envelope import Recorded, draft, upsert_id
from foldlog.errors import AppendConflict, LogCorrupt
from foldlog.log.port import Append, Log
from foldlog.store.blobs import BlobStore
from foldlog.store.payloads import dump
from foldlog.store.primitives import Primitives
from foldlog.store.restoring import restore
from foldlog.store.tombstones import bury, clear_view
from foldlog.views.salvage import readable
from foldlog_projections import scoped, scopes
from foldlog_projections.blobs import Claim
from foldlog_projections.scoped import Written
from foldlog_projections.scopes import Deleted


def scope_of_session(session_id: str) -> str:
    """The subject key of a session's own scope, which `Scope.session` gives it."""
    return f"session:{session_id}"


def session_of_scope(name: str) -> str | None:
    """The session whose own scope that subject key is; None for any other scope."""
    prefix = scope_of_session("")
    return name.removeprefix(prefix) if name.startswith(prefix) else None


def claim_of(scope: str, key: str, version: str) -> Claim:
    """The claim of a version of a value on its blob; the scope by its subject key."""
    return Claim(scoped.kind.name, (scope, key), version)


async def is_claim_used(store: Primitives, sha256: str, claim: Claim) -> bool:
    """Whether a key's history still holds the version of a claim, as `BlobStore.collect` asks."""
    subject = store.subject(scoped.kind, *claim.keys)
    async with aclosing(store.forked_log.read(subject)) as pages:
        async for page in pages:
            if any(each.id == claim.id for record in page for each in record.envelopes):
                return True
    return False


class Contents:
    """What a scope has held since it was cleared last.

    Attributes:
        keys: every key that was written or deleted, with the version of its last change; "" where
            that cannot be read.
        blobs: the copies that hold values, present and past, by key and version.
        head: the sequence of the last change; None if some cannot be read.
    """

    def __init__(self) -> None:
        self.keys: dict[str, str] = {}
        self.blobs: dict[tuple[str, str], str] = {}
        self.head: int | None = 0

    def take(self, change: Recorded) -> None:
        """Take one change in. Raises LogCorrupt: it cannot be read."""
        self.head = change.seq
        match change.type:
            case scopes.WRITTEN:
                written = restore(scopes.Written, change)
                self.keys[written.key] = change.id
                if written.blob:
                    self.blobs[written.key, change.id] = written.blob
            case scopes.DELETED:
                self.keys[restore(Deleted, change).key] = change.id
            case envelope.CLEARED:
                self.keys, self.blobs = {}, {}


async def contents(store: Primitives, name: str, log: Log | None = None) -> Contents:
    """Read all changes of a scope, by its subject key; in another log than the store's, if given.

    Where some cannot be read, the rest counts, and what the log lists of the scope's keys.

    Raises:
        LogUnavailable: the log could not be read.
    """
    found, subject = Contents(), store.subject(scopes.kind, name)
    log = store.forked_log if log is None else log
    try:
        async with aclosing(log.read(subject)) as pages:
            async for page in pages:
                for change in (each for record in page for each in record.envelopes):
                    found.take(change)
    except LogCorrupt:
        found = Contents()
        async with aclosing(readable(log, subject)) as changes:
            async for some in changes:
                for change in some:
                    with suppress(LogCorrupt):
                        found.take(change)
        listed = await store.keys(scoped.kind, (name,))
        found.keys = {key.keys[1]: "" for key in listed} | found.keys
        found.head = None
    return found


async def clear_scope(store: Primitives, blobs: BlobStore, name: str, *, overwrite: bool) -> None:
    """Remove a scope by its subject key. Fine if there is nothing.

    First every key gets its tombstone, so that no moment shows half a key; then one purge takes
    what stands before them, however many keys there are. The changes go last: only they lead
    to the keys and the blobs, so another clearing can finish one that was interrupted.
    `overwrite`: see `Log.purge`.

    Raises:
        LogUnavailable, AppendUnknown: some may remain; clearing again is safe.
    """
    purge = partial(store.forked_log.purge, overwrite=overwrite)
    buried: dict[str, str] = {}
    first, later, is_purged = 0, dict[str, int](), False
    while True:
        found = await contents(store, name)
        left = [key for key, version in found.keys.items() if buried.get(key) != version]
        if left:
            seqs = await bury(store, (store.subject(scoped.kind, name, key) for key in left))
            if first:
                later.update(zip(left, seqs, strict=True))
            else:
                first = min(seqs)
            buried |= {key: found.keys[key] for key in left}
            continue  # a key written before the first tombstone needs one, too
        if first and not is_purged:
            # Made only now: how many shards a log has is known once it is connected.
            branch = store.forked_log.namespace.branch(scoped.kind.name, name)
            await purge(branch, before=first)
            is_purged = True
        for key, seq in later.items():
            await purge(store.subject(scoped.kind, name, key), before=seq)
        later.clear()
        for (key, version), blob in found.blobs.items():
            await blobs.release(blob.partition("-")[0], claim_of(name, key, version))
        try:
            # Not with a key that was written meanwhile, which nothing would find again.
            index = scopes.kind(name)
            await clear_view(store, index, remember=False, head=found.head, overwrite=overwrite)
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
            for each in envelopes:
                if each.type == scoped.WRITTEN:
                    blob = msgspec.msgpack.decode(each.payload, type=Written).blob
                    stored |= {each.id: blob} if blob else {}
    body = dump(Deleted(key))
    deleted = draft(scopes.DELETED, body, id=upsert_id(body))
    index = Append(store.subject(scopes.kind, name), (deleted,))
    for version, blob in stored.items():  # first: only the key's records lead to them
        await blobs.release(blob.partition("-")[0], claim_of(name, key, version))
    await clear_view(store, scoped.kind(name, key), remember=False, also=[index])
