"""Artifacts: bytes kept apart from what a model sees (StateStore specification 2.11, section 11).

The bytes are blobs, everything else is on the log (ADR 0005): a session's subject says what there
is, and a pointer per artifact says which session's subject that is.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from foldlog.envelope import CLEARED, Draft, draft, upsert_id
from foldlog.errors import (
    AppendUnknown,
    ArtifactTooLarge,
    FoldlogError,
    LogCorrupt,
)
from foldlog.log.blobs import Blobs
from foldlog.log.port import Append
from foldlog.models import ArtifactRef, ArtifactRetentionConfig, ArtifactScope
from foldlog.store.clearing import clear_subject
from foldlog.store.journal import Journal
from foldlog.store.payloads import dump, load
from foldlog.store.references import (
    Keys,
    checked_bytes,
    checked_text,
    describe,
    matches,
    reference,
    session_keys,
)
from foldlog.store.retention import going_order, to_evict
from foldlog.subjects import checked_id
from foldlog.views import Consistency
from foldlog_projections import artifacts
from foldlog_projections.artifacts import Deleted, Held, Saved
from foldlog_projections.fold import Folded

_POINTER: Final = "artifact"
"""A family without a view: an artifact's subject holds the keys of its session's subject."""

_EXPIRED_AT_ONCE: Final = 64
"""How many expired artifacts one save puts on record, for it to have an end."""

_READS_REMEMBERED: Final = 10_000

_HASHED_IN_A_THREAD: Final = 1024 * 1024
"""Bytes from which hashing would hold the event loop up for longer than a thread costs."""


class _Pointer(msgspec.Struct, frozen=True):
    """`artifact.located`."""

    keys: Keys


class Artifacts:
    """Artifacts by id. Lives as long as its store; safe to share between tasks of one event loop.

    Saves and deletions inside `store.atomic()` take effect with the block, which cannot count
    against its limits what it saves itself. Bytes are stored at once; those of a block that fails,
    and of what a block deletes, go when their time is over.
    """

    def __init__(self, journal: Journal, blobs: Blobs, retention: ArtifactRetentionConfig) -> None:
        self._journal = journal
        self._blobs = blobs
        self._retention = retention
        self._read_at: OrderedDict[str, float] = OrderedDict()
        self._turns: WeakValueDictionary[Keys, asyncio.Lock] = WeakValueDictionary()

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
        content = checked_bytes(data)
        if len(content) > self._retention.max_artifact_bytes:
            raise ArtifactTooLarge(len(content), self._retention.max_artifact_bytes)
        made = describe(
            await _sha256(content),
            len(content),
            mime_type=mime_type,
            filename=filename,
            namespace=namespace,
            scope=scope,
            meta=meta,
        )
        # A late writer's repetition is told by what was saved, not by where its bytes went.
        id = upsert_id(dump(made))
        keys = session_keys(scope)

        # 1. Refuse before anything is stored. 2. Store the bytes. 3. Say on the log where it is.
        # 4. Say that it is. What is cut short leaves bytes that nobody refers to, never a
        # reference without bytes.
        folded = await self._journal.read(artifacts, *keys)
        if (held := _alive(folded, made.artifact_id)) is not None:
            self._note_read(made.artifact_id)
            return reference(held.saved)
        if not folded.admits(id):
            return reference(made)
        self._to_go(folded, made)
        made = msgspec.structs.replace(
            made,
            blob=f"{made.sha256}-{secrets.token_hex(8)}",
            ttl=max(self._retention.ttl_seconds, 0),
        )
        await self._blobs.put(made.blob, content, sha256=made.sha256, ttl=made.ttl or None)
        try:
            await self._locate(made.artifact_id, keys)
            gone = await self._record(keys, made, id)
        except AppendUnknown:
            raise  # the log may come to refer to the bytes
        except FoldlogError:
            await self._blobs.delete(made.blob)
            raise
        await self._remove_bytes(keys, gone)
        return await self._settled(keys, made, id)

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
        return await self.put_bytes(
            checked_text(text),
            mime_type=mime_type,
            filename=filename,
            namespace=namespace,
            scope=scope,
            meta=meta,
        )

    async def get(self, artifact_id: str) -> bytes | None:
        """Return the bytes, or None if there is no such artifact or its time is over.

        Raises:
            InvalidId: the id is empty.
            LogCorrupt: the bytes are not there whole, or not those that were saved.
            LogUnavailable: the log could not be read.
        """
        held = await self._held(artifact_id)
        while held is not None:
            try:
                data = await self._bytes(held)
            except LogCorrupt:
                # Somebody may have deleted it meanwhile, or deleted it and saved it again.
                again = await self._held(artifact_id, "strong")
                if again == held:
                    raise
                held = again
            else:
                self._note_read(artifact_id)
                return data
        return None

    async def get_with_session_check(self, artifact_id: str, session_id: str) -> bytes | None:
        """Return the bytes if the artifact belongs to that session, else None. Errors as `get`.

        What belongs to no session is for `get` only.
        """
        keys = (checked_id(session_id, "session_id"),)
        return await self.get(artifact_id) if await self._located(artifact_id) == keys else None

    async def get_ref(self, artifact_id: str) -> ArtifactRef | None:
        """Return the reference, or None if there is no such artifact. Errors as `get`."""
        held = await self._held(artifact_id)
        return reference(held.saved) if held is not None else None

    async def exists(self, artifact_id: str) -> bool:
        """Return whether there is such an artifact and its time is not over. Errors as `get`."""
        return await self._held(artifact_id) is not None

    async def delete(self, artifact_id: str) -> bool:
        """Remove an artifact and its bytes; return whether there was one.

        Raises:
            InvalidId: the id is empty.
            AppendFailed, LogUnavailable, AppendUnknown: it may still be there. If it is not, its
                bytes go when their time is over.
        """
        held = await self._held(artifact_id)
        if held is None:
            return False
        keys = session_keys(held.saved.scope)
        await self._journal.append((self._journal.subject(artifacts, *keys), [_deletion(held)]))
        await self._remove_bytes(keys, [held])
        return True

    async def list(self, *, scope: ArtifactScope | None = None) -> list[ArtifactRef]:
        """Return the references whose scope has every field that `scope` has, by first save.

        With a session one view answers. Without, every session that ever had an artifact is
        looked at: that is for operators. Errors as `get`.
        """
        if scope is not None and scope.session_id is not None:
            sessions = [session_keys(scope)]
        else:
            sessions = [s.keys for s in await self._journal.log.subjects(artifacts.name)]
        refs = []
        for keys in sessions:
            folded = await self._journal.read(artifacts, *keys)
            held = [each for each in folded.state.values() if each.expires_at > time.time()]
            refs += [reference(each.saved) for each in held if matches(each.saved, scope)]
        return refs

    async def clear_session(self, session_id: str) -> None:
        """Remove a session's artifacts; a late writer cannot bring them back.

        Raises:
            InvalidId: the id is empty.
            LogUnavailable, AppendUnknown: some may remain; clearing again is safe.
        """
        keys = (checked_id(session_id, "session_id"),)
        held = await clear_subject(self._journal, artifacts, *keys)
        await self._remove_bytes(keys, held.values())

    async def clear(self) -> None:
        """Remove all artifacts. Unlike `clear_session` it does not remember what there was.

        Raises:
            LogUnavailable, AppendUnknown: some may remain; clearing again is safe.
        """
        for subject in await self._journal.log.subjects(artifacts.name):
            keys = subject.keys
            held = await clear_subject(self._journal, artifacts, *keys, remember=False)
            await self._remove_bytes(keys, held.values())

    def _to_go(self, folded: Folded[dict[str, Held]], made: Saved) -> Sequence[Held]:
        """What must be gone for `made` to be saved: what has expired, and what is evicted.

        Raises:
            ArtifactLimitExceeded: see `to_evict`.
        """
        now = time.time()
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
            folded = await self._journal.read(artifacts, *keys)
            if _alive(folded, made.artifact_id) is not None or not folded.admits(id):
                return ()  # saved by somebody else, or cleared, while these bytes were stored
            gone = self._to_go(folded, made)
            drafts = [*map(_deletion, gone), draft(artifacts.SAVED, dump(made), id=id)]
            await self._journal.append((self._journal.subject(artifacts, *keys), drafts))
            return gone

    async def _settled(self, keys: Keys, made: Saved, id: str) -> ArtifactRef:
        """Return the reference that stands now; bytes that it does not refer to are removed."""
        folded = await self._journal.read(artifacts, *keys)
        held = folded.state.get(made.artifact_id)
        if held is None and folded.admits(id):
            return reference(made)  # it waits for the end of its atomic block
        if held is None or held.saved.blob != made.blob:
            await self._blobs.delete(made.blob)
        return reference(held.saved if held is not None else made)

    async def _remove_bytes(self, keys: Keys, gone: Iterable[Held]) -> None:
        """Remove the bytes of what the log no longer holds: nothing yet, in an atomic block."""
        folded = await self._journal.read(artifacts, *keys)
        standing = {held.id for held in folded.state.values()}
        for held in gone:
            if held.id not in standing:
                await self._blobs.delete(held.saved.blob)

    async def _bytes(self, held: Held) -> bytes:
        data = await self._blobs.get(held.saved.blob)
        if data is not None and await _sha256(data) == held.saved.sha256:
            return data
        raise LogCorrupt(
            self._journal.subject(artifacts, *session_keys(held.saved.scope)).name,
            held.seq,
            f"the bytes of artifact {held.saved.artifact_id} are "
            + ("missing" if data is None else "not those that were saved"),
        )

    async def _locate(self, artifact_id: str, keys: Keys) -> None:
        """Put on the log where an artifact is. It never changes; saying it twice is harmless.

        Directly, also inside `atomic()`: it may live on another shard, and it tells nothing until
        its session's subject does.
        """
        subject = self._journal.subject(_POINTER, artifact_id)
        pointer = draft("artifact.located", dump(_Pointer(keys)), id="located")
        await self._journal.log.append([Append(subject, (pointer,))])

    async def _located(self, artifact_id: str) -> Keys | None:
        record = await self._journal.log.last(self._journal.subject(_POINTER, artifact_id))
        if record is None or record.envelopes[-1].type == CLEARED:
            return None
        return load(_Pointer, record.envelopes[-1].payload).keys

    async def _held(self, artifact_id: str, consistency: Consistency = "session") -> Held | None:
        keys = await self._located(artifact_id)
        if keys is None:
            return None
        folded = await self._journal.read(artifacts, *keys, consistency=consistency)
        return _alive(folded, artifact_id)


def _alive(folded: Folded[dict[str, Held]], artifact_id: str) -> Held | None:
    held = folded.state.get(artifact_id)
    return held if held is not None and held.expires_at > time.time() else None


def _deletion(held: Held) -> Draft:
    body = dump(Deleted(held.saved.artifact_id, held.id))
    # The id follows from what is deleted: several who delete the same save have one effect.
    return draft(artifacts.DELETED, body, id=f"deleted:{held.id}")


async def _sha256(data: bytes) -> str:
    if len(data) < _HASHED_IN_A_THREAD:
        return hashlib.sha256(data).hexdigest()
    return (await asyncio.to_thread(hashlib.sha256, data)).hexdigest()
