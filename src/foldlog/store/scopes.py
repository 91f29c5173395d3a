"""What a scope of scoped state holds, and clearing it: its keys with their histories, its blobs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing, suppress

import msgspec

from foldlog.envelope import CLEARED, Recorded
from foldlog.errors import AppendConflict, LogCorrupt
from foldlog.kind import Key
from foldlog.log.port import Log
from foldlog.store.blobs import BlobStore
from foldlog.store.primitives import Primitives
from foldlog.store.restoring import restore
from foldlog.store.tombstones import bury, clear_view
from foldlog.subjects import unescape
from foldlog.views.fold import readable
from foldlog_projections import scoped
from foldlog_projections.blobs import Claim
from foldlog_projections.scoped import OWN, Written


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


def own(scope: str) -> Key[Recorded | None]:
    """What a scope has beside its keys, by its subject key: it stands for all of the scope."""
    return scoped.kind(scope, OWN)


def is_own(key: Key[object]) -> bool:
    """Whether a view stands for a whole scope."""
    return key.kind is scoped.kind and key.keys[1] == OWN


def key_of(subject: str, envelope: Recorded) -> str:
    """The key of a scope to which an envelope belongs, by its subject's name.

    Raises:
        LogCorrupt: neither tells it.
    """
    key = envelope.keys[-1] if envelope.keys else unescape(subject.rpartition(".")[2])
    if key is None:
        raise LogCorrupt(subject, envelope.seq, "the keys of a hashed subject are missing")
    return key


class Contents:
    """What a scope holds, in the order of the log.

    Attributes:
        keys: the last sequence of every subject, by key, its own among them; none that was cleared.
        blobs: the copies that hold values, present and past, by key and version, with sequences.
        is_whole: False where some cannot be read; the sequences of the keys are then 0.
    """

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}
        self.blobs: dict[tuple[str, str], tuple[str, int]] = {}
        self.is_whole = True

    def take(self, subject: str, envelopes: Iterable[Recorded]) -> None:
        """Take in what follows of a subject. Raises LogCorrupt: it cannot be read."""
        for each in envelopes:
            key = key_of(subject, each)
            self.keys[key] = each.seq
            if each.type == CLEARED:
                del self.keys[key]
            elif each.type == scoped.WRITTEN and (blob := restore(Written, each).blob):
                self.blobs[key, each.id] = blob, each.seq


async def contents(store: Primitives, name: str, log: Log | None = None) -> Contents:
    """Read all of a scope, by its subject key; through no fork, unless the log given does.

    Where some cannot be read, the rest counts, and what the log lists of the scope's keys.

    Raises:
        LogUnavailable: the log could not be read.
    """
    found = Contents()
    log = store.log if log is None else log
    branch = log.namespace.branch(scoped.kind.name, name)
    try:
        async with aclosing(log.read(branch)) as pages:
            async for page in pages:
                for record in page:
                    found.take(record.subject, record.envelopes)
    except LogCorrupt:
        found = Contents()
        listed = await store.keys(scoped.kind, (name,))
        for key in listed:
            subject = store.subject(scoped.kind, *key.keys)
            async with aclosing(readable(log, subject)) as some:
                async for envelopes in some:
                    with suppress(LogCorrupt):
                        found.take(subject.name, envelopes)
        found.keys, found.is_whole = {key.keys[1]: 0 for key in listed}, False
    return found


async def clear_scope(store: Primitives, blobs: BlobStore, name: str, *, overwrite: bool) -> None:
    """Remove a scope by its subject key. Fine if there is nothing.

    1. The scope gets its tombstone: nothing before it is listed or searched any more. 2. Each key
    that was written last before it gets one. 3. One purge takes all that stands before the first,
    however many keys there are. What is written meanwhile stays, or the key's tombstone takes it.
    `overwrite`: see `Log.purge`.

    Raises:
        LogUnavailable, AppendUnknown: some may remain; clearing again is safe.
    """
    [at] = await bury(store, [store.subject(scoped.kind, *own(name).keys)])
    found = await contents(store, name)
    while left := {key: seq for key, seq in found.keys.items() if seq < at}:
        subjects = {store.subject(scoped.kind, name, key): seq for key, seq in left.items()}
        try:
            await bury(store, subjects, ends=subjects if found.is_whole else None)
        except AppendConflict:
            found = await contents(store, name)
        else:
            break
    for (key, version), (blob, seq) in found.blobs.items():
        if seq < at:
            await blobs.release(blob.partition("-")[0], claim_of(name, key, version))
    # Made only now: how many shards a log has is known once it is connected.
    branch = store.forked_log.namespace.branch(scoped.kind.name, name)
    await store.forked_log.purge(branch, before=at, overwrite=overwrite)


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
    for version, blob in stored.items():  # first: only the key's records lead to them
        await blobs.release(blob.partition("-")[0], claim_of(name, key, version))
    await clear_view(store, scoped.kind(name, key), remember=False)
