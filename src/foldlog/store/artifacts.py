"""Artifacts: bytes kept apart from what a model sees (StateStore specification 2.11, section 11).

The bytes are blobs that each save claims, everything else is on the log (ADR 0005): a session's
subject says what there is, and a pointer per artifact says which session's subject that is.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from foldlog.envelope import CLEARED, Draft, draft, upsert_id
from foldlog.errors import (
    AppendUnknown,
    ArtifactTooLarge,
    FoldlogError,
    LogCorrupt,
    PastErased,
)
from foldlog.kind import Key
from foldlog.log.port import Append, Record
from foldlog.models import ArtifactRef, ArtifactRetentionConfig, ArtifactScope
from foldlog.store.blobs import BlobStore, digest
from foldlog.store.lineages import Lineages
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import dump, load
from foldlog.store.references import (
    Keys,
    checked_bytes,
    checked_text,
    describe,
    matches,
    of_session,
    reference,
    session_keys,
)
from foldlog.store.retention import going_order, to_evict
from foldlog.store.tombstones import clear_view
from foldlog.subjects import Subject, checked_id
from foldlog.views import Consistency
from foldlog_projections import artifacts
from foldlog_projections.artifacts import Deleted, Held, Saved
from foldlog_projections.blobs import Claim
from foldlog_projections.fold import Folded

POINTER: Final = "artifact"
"""A family without a view: an artifact's subject holds the keys of its session's subject."""

_EXPIRED_AT_ONCE: Final = 64
"""How many expired artifacts one save puts on record, for it to have an end."""

_READS_REMEMBERED: Final = 10_000


class _Pointer(msgspec.Struct, frozen=True):
    """`artifact.located`."""

    keys: Keys


class _Found(NamedTuple):
    """An artifact that exists, and the keys of its session's subject."""

    keys: Keys
    held: Held


class Artifacts:
    """Artifacts by id. Lives as long as its store; safe to share between tasks of one event loop.

    Saves and deletions inside `store.atomic()` take effect with the block, which cannot count
    against its limits what it saves itself. Bytes are stored at once; those of a block that fails,
    and of what a block deletes, go when their time is over or when blobs are collected.
    """

    def __init__(
        self, store: Lineages, blobs: BlobStore, retention: ArtifactRetentionConfig
    ) -> None:
        self._store = store
        self._blobs = blobs
        blobs.users[artifacts.kind.name] = self._is_used
        self._retention = retention
        self.calls = store.calls.of("artifacts.")
        self._read_at: OrderedDict[str, float] = OrderedDict()
        self._turns: WeakValueDictionary[Keys, asyncio.Lock] = WeakValueDictionary()

    @operation(writes=True)
    async def put_bytes(
        self,
        data: bytes | bytearray | memoryview,
        *,
        mime_type: str | None = None,
        filename: str | None = None,
        namespace: str | None = None,
        scope: ArtifactScope | None = None,
        meta: dict[str, Any] | None = None,
    ) -> ArtifactRef:
        """Keep the bytes and return their reference.

        The id follows from content, namespace and scope. What is there already stays as it was
        saved first, with its metadata and life span. What `clear_session` removed is not kept
        again: the reference comes back, and leads to nothing.

        Args:
            namespace: what made it, a tool's name for instance; the id begins with it.
            meta: becomes the reference's `source`.

        Raises:
            ArtifactTooLarge: over `max_artifact_bytes`. ArtifactLimitExceeded: over a budget of
                its session or trace from which nothing may be evicted. Nothing was stored.
            PayloadError, InvalidId: an argument cannot be held. Nothing was stored.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`. Saving again is
                safe.
        """
        return await self._put(
            data,
            mime_type=mime_type,
            filename=filename,
            namespace=namespace,
            scope=scope,
            meta=meta,
        )

    async def _put(self, data: Any, **about: Any) -> ArtifactRef:
        if self._store.redaction:
            values = {"data": data, "filename": about.pop("filename"), "meta": about.pop("meta")}
            redacted = self._store.redaction.redacted("put_bytes", artifacts.SAVED, about, values)
            data, about = redacted["data"], {**about, **redacted}
            del about["data"]
        content = checked_bytes(data)
        if len(content) > self._retention.max_artifact_bytes:
            raise ArtifactTooLarge(len(content), self._retention.max_artifact_bytes)
        made = describe(
            await digest(content),
            len(content),
            **about,
        )
        # A late writer's repetition is told by what was saved, not by where its bytes went.
        id = upsert_id(dump(made))
        keys = session_keys(about["scope"])

        # 1. Refuse before anything is stored. 2. Store the bytes. 3. Say on the log where it is.
        # 4. Say that it is. What is cut short leaves bytes that nobody refers to, never a
        # reference without bytes.
        folded = await self._store.read(artifacts.kind, *keys)
        if (held := self._alive(folded, made.artifact_id)) is not None:
            self._note_read(made.artifact_id)
            return reference(held.saved)
        if not folded.admits(id):
            return reference(made)
        self._to_go(folded, made)
        ttl = max(self._retention.ttl_seconds, 0)
        claim = Claim(artifacts.kind.name, keys, id)
        blob = await self._blobs.claim(claim, content, made.sha256, ttl=ttl)
        made = msgspec.structs.replace(made, blob=blob, ttl=ttl)
        try:
            await self._locate(made.artifact_id, keys)
            gone = await self._record(keys, made, id)
        except AppendUnknown:
            raise  # the log may come to refer to the bytes
        except FoldlogError:
            await self._blobs.release(made.sha256, claim)
            raise
        await self._release(keys, gone)
        return await self._settled(claim, made)

    @operation(writes=True)
    async def put_text(
        self,
        text: str,
        *,
        mime_type: str = "text/plain",
        filename: str | None = None,
        namespace: str | None = None,
        scope: ArtifactScope | None = None,
        meta: dict[str, Any] | None = None,
    ) -> ArtifactRef:
        """Keep the text as UTF-8; otherwise as `put_bytes`.

        Raises:
            PayloadError: it is no text, or holds a lone surrogate.
        """
        return await self._put(
            checked_text(text),
            mime_type=mime_type,
            filename=filename,
            namespace=namespace,
            scope=scope,
            meta=meta,
        )

    @operation(nothing)
    async def get(self, artifact_id: str) -> bytes | None:
        """Return the bytes, or None if there is no such artifact or its time is over.

        Raises:
            InvalidId: the id is empty.
            LogCorrupt: the bytes are not there whole, or not those that were saved.
            LogUnavailable: the log could not be read.
        """
        return await self._get(functools.partial(self._found, artifact_id))

    @operation(nothing)
    async def get_with_session_check(self, artifact_id: str, session_id: str) -> bytes | None:
        """Return the bytes if the artifact belongs to that session, else None.

        What belongs to no session is for `get` only. A fork has what it shares with its origin.

        Raises:
            PastErased: a fork shares it, but its bytes were removed before the session was forked.
            Others as `get`.
        """
        keys = (checked_id(session_id, "session_id"),)
        return await self._get(
            functools.partial(self._in, keys, checked_id(artifact_id, "artifact_id"))
        )

    @operation(nothing)
    async def get_ref(self, artifact_id: str) -> ArtifactRef | None:
        """Return the reference, or None if there is no such artifact. Errors as `get`."""
        found = await self._found(artifact_id)
        return reference(found.held.saved) if found is not None else None

    @operation(bool)
    async def exists(self, artifact_id: str) -> bool:
        """Return whether there is such an artifact and its time is not over. Errors as `get`."""
        return await self._found(artifact_id) is not None

    @operation(bool, writes=True)
    async def delete(self, artifact_id: str) -> bool:
        """Remove an artifact and its bytes; return whether there was one.

        Of one that forks share, it goes from the session that saved it, or else from the first that
        has it, and the bytes with the last.

        Raises:
            InvalidId: the id is empty.
            AppendFailed, LogUnavailable, AppendUnknown: it may still be there. If it is not, its
                bytes go when their time is over or when blobs are collected.
        """
        found = await self._found(artifact_id)
        if found is None:
            return False
        keys, held = found
        subject = self._store.subject(artifacts.kind, *keys)
        await self._store.append_drafts((subject, [_deletion(held)]))
        await self._release(keys, [held])
        return True

    @operation(list)
    async def list(self, *, scope: ArtifactScope | None = None) -> list[ArtifactRef]:
        """Return the references whose scope has every field that `scope` has, by first save.

        With a session one view answers. Without, every session that ever had an artifact is
        looked at: that is for operators. Errors as `get`.
        """
        if scope is not None and scope.session_id is not None:
            sessions = [session_keys(scope)]
        else:
            sessions = [s.keys for s in await self._store.forked_log.subjects(artifacts.kind.name)]
        refs: dict[str, ArtifactRef] = {}
        for keys in sessions:
            folded = await self._store.read(artifacts.kind, *keys)
            now = self._store.now()
            alive = [held for held in folded.state.values() if held.expires_at > now]
            for saved in (of_session(held.saved, keys) for held in alive):
                if matches(saved, scope):
                    refs.setdefault(saved.artifact_id, reference(saved))
        return [*refs.values()]

    @operation(nothing, writes=True)
    async def clear_session(self, session_id: str) -> None:
        """Remove a session's artifacts; a late writer cannot bring them back.

        Raises:
            InvalidId: the id is empty.
            LogUnavailable, AppendUnknown: some may remain; clearing again is safe.
        """
        await self.clear_all_of(session_id)

    async def clear_all_of(self, session_id: str) -> None:
        """As `clear_session`, and raises where a degrading store would not."""
        keys = (checked_id(session_id, "session_id"),)
        pointers = await self._pointers(keys)
        held = await clear_view(self._store, Key(artifacts.kind, keys))
        await self._release(keys, list(held.values()))
        for pointer, last in pointers:
            await self._store.forked_log.purge(pointer, before=last + 1)

    @operation(nothing, writes=True)
    async def clear(self) -> None:
        """Remove all artifacts. Unlike `clear_session` it does not remember what there was.

        Raises:
            LogUnavailable, AppendUnknown: some may remain; clearing again is safe.
        """
        await self.clear_everything()

    async def clear_everything(self) -> None:
        """As `clear`, and raises where a degrading store would not."""
        for subject in await self._store.forked_log.subjects(artifacts.kind.name):
            keys = subject.keys
            held = await clear_view(self._store, Key(artifacts.kind, keys), remember=False)
            await self._release(keys, list(held.values()))

    def _to_go(self, folded: Folded[dict[str, Held]], made: Saved) -> Sequence[Held]:
        """What must be gone for `made` to be saved: what has expired, and what is evicted.

        Raises:
            ArtifactLimitExceeded: see `to_evict`.
        """
        now = self._store.now()
        alive = {id: held for id, held in folded.state.items() if held.expires_at > now}
        evicted = to_evict(
            going_order(alive, self._retention, self._read_at), made, self._retention
        )
        expired = [held for id, held in folded.state.items() if id not in alive]
        # Its own predecessor above all: while that stands, it is the one that counts.
        expired.sort(key=lambda held: held.saved.artifact_id != made.artifact_id)
        return [*expired[:_EXPIRED_AT_ONCE], *evicted]

    def _note_read(self, artifact_id: str) -> None:
        """Remember a read for "lru". In this process only: a read must not cost a write."""
        self._read_at[artifact_id] = time.time()
        self._read_at.move_to_end(artifact_id)
        if len(self._read_at) > _READS_REMEMBERED:
            self._read_at.popitem(last=False)

    async def _record(self, keys: Keys, made: Saved, id: str) -> Sequence[Held]:
        """Put the save on the log, after what it makes go; return the latter."""
        # One at a time for a session, so that each counts what the one before has saved. Other
        # processes do the same on their own; what they overshoot together, the next save evicts.
        turn = self._turns.setdefault(keys, asyncio.Lock())
        async with turn:
            folded = await self._store.read(artifacts.kind, *keys)
            if self._alive(folded, made.artifact_id) is not None or not folded.admits(id):
                return ()  # saved by somebody else, or cleared, while these bytes were stored
            gone = self._to_go(folded, made)
            drafts = [*map(_deletion, gone), draft(artifacts.SAVED, dump(made), id=id)]
            await self._store.append_drafts((self._store.subject(artifacts.kind, *keys), drafts))
            return gone

    async def _settled(self, claim: Claim, made: Saved) -> ArtifactRef:
        """Return the reference that stands now; a claim that it does not need is released."""
        folded = await self._store.read(artifacts.kind, *claim.keys)
        held = folded.state.get(made.artifact_id)
        if held is None and folded.admits(claim.id):
            return reference(made)  # it waits for the end of its atomic block
        if held is None or held.id != claim.id:
            await self._blobs.release(made.sha256, claim)
        return reference(held.saved if held is not None else made)

    async def _release(self, keys: Keys, gone: Sequence[Held]) -> None:
        """Release the bytes of what the log no longer holds: nothing yet, in an atomic block."""
        standing = await self._standing(keys) if gone else set()
        for held in gone:
            if held.id not in standing:
                claim = Claim(artifacts.kind.name, session_keys(held.saved.scope), held.id)
                await self._blobs.release(held.saved.sha256, claim)

    async def _standing(self, keys: Keys) -> set[str]:
        """The ids of all saves that a session holds, or one that it shares artifacts with."""
        relatives = await self._store.relatives(keys[0]) if len(keys) == 1 else []
        standing: set[str] = set()
        for each in (keys, *((relative,) for relative in relatives)):
            folded = await self._store.read(artifacts.kind, *each, consistency="strong")
            standing |= {held.id for held in folded.state.values()}
        return standing

    async def _is_used(self, sha256: str, claim: Claim) -> bool:
        return claim.id in await self._standing(claim.keys)

    async def _get(self, find: Callable[[Consistency], Awaitable[_Found | None]]) -> bytes | None:
        found = await find("session")
        while found is not None:
            try:
                data = await self._bytes(found)
            except (LogCorrupt, PastErased):
                # Somebody may have deleted it meanwhile, or deleted it and saved it again.
                again = await find("strong")
                if again == found:
                    raise
                found = again
            else:
                self._note_read(found.held.saved.artifact_id)
                return data
        return None

    async def _bytes(self, found: _Found) -> bytes:
        keys, held = found
        data = await self._blobs.get(held.saved.blob)
        if data is not None:
            return data
        if session_keys(held.saved.scope) != keys:
            what = f"artifact {held.saved.artifact_id} of {keys[0]!r:.80}"
            raise PastErased(what, "its bytes were removed before the session was forked")
        subject = self._store.subject(artifacts.kind, *keys)
        reason = f"the bytes of artifact {held.saved.artifact_id} are missing"
        raise LogCorrupt(subject.name, held.seq, reason)

    async def _locate(self, artifact_id: str, keys: Keys) -> None:
        """Put on the log where an artifact is. It never changes; saying it twice is harmless.

        Directly, also inside `atomic()`: it may live on another shard, and it tells nothing until
        its session's subject does.
        """
        subject = self._store.subject(POINTER, artifact_id)
        pointer = draft("artifact.located", dump(_Pointer(keys)), id="located")
        await self._store.forked_log.append([Append(subject, (pointer,))])

    async def _located(self, artifact_id: str) -> Keys | None:
        record = await self._store.forked_log.last(self._store.subject(POINTER, artifact_id))
        return None if record is None else _keys(record)

    async def _pointers(self, keys: Keys) -> Sequence[tuple[Subject, int]]:
        """The subjects that say of a session's artifacts where they are, and where each ends.

        Looked up before they are cleared: who saves one anew says anew where it is.
        """
        folded = await self._store.read(artifacts.kind, *keys, consistency="strong")
        pointers = [self._store.subject(POINTER, id) for id in folded.state]
        records = [await self._store.forked_log.last(pointer) for pointer in pointers]
        return [
            (pointer, record.seq)
            for pointer, record in zip(pointers, records, strict=True)
            if record is not None and _keys(record) in (None, keys)
        ]

    async def _found(self, artifact_id: str, consistency: Consistency = "session") -> _Found | None:
        """The artifact where it was saved or, if it is gone there, in a fork that has it."""
        keys = await self._located(artifact_id)
        ahead = [] if keys is None else [keys]
        for keys in ahead:
            found = await self._in(keys, artifact_id, consistency)
            if found is not None:
                return found
            if len(keys) == 1:
                forks = (await self._store.lineage_of(keys[0], consistency)).forks
                ahead += [(fork,) for fork in forks]
        return None

    async def _in(self, keys: Keys, artifact_id: str, consistency: Consistency) -> _Found | None:
        folded = await self._store.read(artifacts.kind, *keys, consistency=consistency)
        held = self._alive(folded, artifact_id)
        return _Found(keys, held) if held is not None else None

    def _alive(self, folded: Folded[dict[str, Held]], artifact_id: str) -> Held | None:
        held = folded.state.get(artifact_id)
        return held if held is not None and held.expires_at > self._store.now() else None


def _keys(pointer: Record) -> Keys | None:
    """The keys of the subject to which a pointer leads; None if it was cleared."""
    last = pointer.envelopes[-1]
    return None if last.type == CLEARED else load(_Pointer, last.payload).keys


def _deletion(held: Held) -> Draft:
    body = dump(Deleted(held.saved.artifact_id, held.id))
    # The id follows from what is deleted: several who delete the same save have one effect.
    return draft(artifacts.DELETED, body, id=f"deleted:{held.id}")
