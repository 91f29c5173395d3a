"""Artifacts: bytes that a model does not see (StateStore specification 2.11, section 11).

The bytes are large values of the session's view, everything else is on the log (ADR 0005): the view
says what there is, and a pointer per artifact says which session's view that is.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from foldlog.envelope import CLEARED, Draft, draft, upsert_id
from foldlog.errors import AppendUnknown, ArtifactTooLarge, FoldlogError, LogCorrupt, PastErased
from foldlog.kind import Key
from foldlog.log.port import Append
from foldlog.models import ArtifactRef, ArtifactRetentionConfig, ArtifactScope
from foldlog.store.blobs import digest
from foldlog.store.core import Capability, core_of
from foldlog.store.operation import nothing, operation
from foldlog.store.ownership import lineage_of, relatives
from foldlog.store.payloads import dump, encode
from foldlog.store.references import (
    Keys,
    checked_bytes,
    checked_text,
    describe,
    matches,
    reference,
    seen_from,
    session_keys,
    to_go,
)
from foldlog.store.removal import Removal
from foldlog.store.restoring import load
from foldlog.subjects import checked_id
from foldlog.views import Consistency
from foldlog_projections import artifact, artifacts
from foldlog_projections.artifact import Located
from foldlog_projections.artifacts import Deleted, Held, Saved
from foldlog_projections.fold import Folded

_READS_REMEMBERED: Final = 10_000

_operation = functools.partial(operation, prefix="artifacts.")


class _Found(NamedTuple):
    """An artifact that exists, and the keys of its session's subject."""

    keys: Keys
    held: Held


class Artifacts(Capability):
    """Artifacts by id. Lives as long as its store; safe to share between tasks of one event loop.

    Saves and deletions inside `store.atomic()` take effect with the block, and its limits do not
    count what the block saves. Bytes are stored at once; those of a block that fails, and of what a
    block deletes, go with the session, or by `store.blobs.sweep`.
    """

    def __init__(self, store: Removal, retention: ArtifactRetentionConfig) -> None:
        super().__init__(core_of(store))
        self._store = store
        self._retention = retention
        self._read_at: OrderedDict[str, float] = OrderedDict()
        self._turns: WeakValueDictionary[Keys, asyncio.Lock] = WeakValueDictionary()

    @_operation(writes=True)
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
        """Store bytes and return their reference.

        The id follows from content, namespace and scope. The first save stands, with its metadata
        and life span.

        Args:
            data: the bytes.
            mime_type: what they are.
            filename: a name for a reader; it is data, never a path.
            namespace: what made them, such as a tool's name; the id begins with it.
            scope: the session and trace that they belong to, and whose limits count them.
            meta: becomes the reference's `source`.

        Raises:
            ArtifactTooLarge: the bytes exceed `max_artifact_bytes`. Nothing was stored.
            ArtifactLimitExceeded: a limit of the session or trace is reached, and nothing may be
                evicted. Nothing was stored.
            InvalidId, PayloadError, RedactionFailed: an argument was refused. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: it may have been stored; saving
                again is safe.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.

        Examples:
            >>> ref = await store.artifact_store.put_bytes(b"%PDF", mime_type="application/pdf")
            >>> await store.artifact_store.get(ref.id)
            b'%PDF'
        """
        about: dict[str, Any] = {"mime_type": mime_type, "namespace": namespace, "scope": scope}
        values: dict[str, Any] = {"data": data, "filename": filename, "meta": meta}
        values = dict(self._core.redaction.redacted("put_bytes", artifacts.SAVED, about, values))
        content = checked_bytes(values.pop("data"))
        if len(content) > self._retention.max_artifact_bytes:
            raise ArtifactTooLarge(len(content), self._retention.max_artifact_bytes)
        made = describe(await digest(content), len(content), **about, **values)
        # The id follows from what was saved, not from where its bytes are: a late retry has it too.
        id, keys = upsert_id(dump(made)), session_keys(scope)

        # 1. Refuse before anything is stored. 2. Store the bytes. 3. Append where it is. 4. Append
        # that it is. An interruption leaves bytes without a reference, never the reverse.
        folded = await self._core.read(artifacts.kind, *keys)
        if self._going(folded, made) is None:
            self._note_read(made.artifact_id)
            held = self._alive(folded, made.artifact_id)
            return reference(held.saved if held is not None else made)
        view, ttl = Key(artifacts.kind, keys), max(self._retention.ttl_seconds, 0)
        blob = await self._store.blobs.put(view, content, ttl=ttl or None)
        made = msgspec.structs.replace(made, blob=blob, ttl=ttl)
        try:
            await self._locate(made.artifact_id, keys)
            gone = await self._record(keys, made, id)
        except AppendUnknown:
            raise  # the log may come to name the bytes
        except FoldlogError:
            await self._store.blobs.remove(view, blob)
            raise
        await self._remove_bytes(keys, gone)

        async def look_again() -> Saved:
            held = (await self._core.read(artifacts.kind, *keys)).state.get(made.artifact_id)
            if held is None or held.id != id:
                # Somebody else was first, whose save may have been deleted since.
                await self._remove_bytes(keys, [Held(id, 0, 0.0, made)])
            else:
                # The session may have been cleared between the bytes and the record.
                if await self._located(made.artifact_id) is None:
                    await self._locate(made.artifact_id, keys)
                await self._store.blobs.keep(view, blob, content, ttl=ttl or None)
            return held.saved if held is not None else made

        return reference(await self._core.once_stored(look_again) or made)

    @_operation(writes=True)
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
        """Store a text as UTF-8 and return its reference.

        Args:
            text: the text.
            mime_type: what it is.
            filename: a name for a reader; it is data, never a path.
            namespace: what made it, such as a tool's name; the id begins with it.
            scope: the session and trace that it belongs to, and whose limits count it.
            meta: becomes the reference's `source`.

        Raises:
            ArtifactTooLarge: the text exceeds `max_artifact_bytes`. Nothing was stored.
            ArtifactLimitExceeded: a limit of the session or trace is reached, and nothing may be
                evicted. Nothing was stored.
            InvalidId, PayloadError, RedactionFailed: an argument was refused. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: it may have been stored; saving
                again is safe.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        return await self.put_bytes(
            checked_text(text),
            mime_type=mime_type,
            filename=filename,
            namespace=namespace,
            scope=scope,
            meta=meta,
        )

    @_operation(nothing)
    async def get(self, artifact_id: str) -> bytes | None:
        """Return the bytes; None if there is no such artifact or it has expired.

        Args:
            artifact_id: the `id` of its reference.

        Raises:
            InvalidId: the id is empty.
            LogUnavailable, StoreClosed: no answer, or a closed store.
            LogCorrupt: the bytes are not whole, or not those that were saved.
        """
        return await self._bytes(artifact_id)

    @_operation(nothing)
    async def get_with_session_check(self, artifact_id: str, session_id: str) -> bytes | None:
        """Return the bytes if the session has the artifact, or its origin had; else None.

        Args:
            artifact_id: the `id` of its reference.
            session_id: the session.

        Raises:
            InvalidId: an id is empty.
            PastErased: its bytes were removed before the session was forked.
            LogUnavailable, LogCorrupt: the log did not answer, or the bytes are not whole.
            StoreClosed: the store is closed.
        """
        keys = (checked_id(session_id, "session_id"),)
        return await self._bytes(checked_id(artifact_id, "artifact_id"), keys)

    @_operation(nothing)
    async def get_ref(self, artifact_id: str) -> ArtifactRef | None:
        """Return the reference; None if there is no such artifact or it has expired.

        Args:
            artifact_id: the `id` of the reference.

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        found = await self._find(artifact_id)
        return reference(found.held.saved) if found is not None else None

    @_operation(bool)
    async def exists(self, artifact_id: str) -> bool:
        """Return whether there is such an artifact that has not expired.

        Args:
            artifact_id: the `id` of its reference.

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return await self._find(artifact_id) is not None

    @_operation(bool, writes=True)
    async def delete(self, artifact_id: str) -> bool:
        """Remove an artifact and its bytes; return whether there was one.

        If forks share it, it goes from the session that saved it, or else from the first fork that
        has it; the bytes go with the last.

        Args:
            artifact_id: the `id` of its reference.

        Raises:
            InvalidId: the id is empty.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: the artifact, or its bytes, may
                remain; deleting again is safe.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        found = await self._find(artifact_id)
        if found is None:
            return False
        subject = self._core.subject(artifacts.kind, *found.keys)
        await self._core.append_drafts((subject, [_deletion(found.held)]))
        await self._remove_bytes(found.keys, [found.held])
        return True

    @_operation(list)
    async def list(self, *, scope: ArtifactScope | None = None) -> list[ArtifactRef]:
        """Return the references whose scope has every field that `scope` has, by first save.

        Args:
            scope: the session, trace and so on to look for. Without a session it reads every
                session that ever had an artifact: for operators.

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        if scope is not None and scope.session_id is not None:
            sessions = [session_keys(scope)]
        else:
            sessions = [s.keys for s in await self._core.forked_log.subjects(artifacts.kind.name)]
        refs: dict[str, ArtifactRef] = {}
        for keys in sessions:
            folded = await self._core.read(artifacts.kind, *keys)
            for id in folded.state:
                held = self._alive(folded, id)
                if held is not None and matches(saved := seen_from(keys, held.saved), scope):
                    refs.setdefault(id, reference(saved))
        return [*refs.values()]

    @_operation(nothing, writes=True)
    async def clear_session(self, session_id: str) -> None:
        """Remove a session's artifacts.

        Args:
            session_id: the session.

        Raises:
            InvalidId: the id is empty.
            SessionHasForks: forks still share the session. Nothing was removed.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: some may remain; clear again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        await self._store.erase(artifacts.kind(checked_id(session_id, "session_id")))

    @_operation(nothing, writes=True)
    async def clear(self) -> None:
        """Remove all artifacts.

        Raises:
            SessionHasForks: forks still share a session. Some were removed.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: some may remain; clear again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        for subject in await self._core.forked_log.subjects(artifacts.kind.name):
            await self._store.erase(Key(artifacts.kind, subject.keys))

    def _going(self, folded: Folded[dict[str, Held]], made: Saved) -> Sequence[Held] | None:
        """What must go for `made` to be saved; None if it is there."""
        if self._alive(folded, made.artifact_id) is not None:
            return None
        now = self._core.now()
        return to_go(folded.state, made, self._retention, now=now, read_at=self._read_at)

    def _note_read(self, artifact_id: str) -> None:
        """Remember a read for "lru". In this process only: a read must not cost a write."""
        self._read_at[artifact_id] = time.time()
        self._read_at.move_to_end(artifact_id)
        if len(self._read_at) > _READS_REMEMBERED:
            self._read_at.popitem(last=False)

    async def _record(self, keys: Keys, made: Saved, id: str) -> Sequence[Held]:
        """Append the save, after what it makes go; return the latter."""
        # One at a time for a session, so that each counts what the one before has saved. Other
        # processes do the same on their own; if they exceed a limit in sum, the next save evicts.
        async with self._turns.setdefault(keys, asyncio.Lock()):
            folded = await self._core.read(artifacts.kind, *keys)
            gone = self._going(folded, made)
            if gone is None:
                return ()  # saved by somebody else while these bytes were stored
            drafts = [*map(_deletion, gone), draft(artifacts.SAVED, dump(made), id=id)]
            await self._core.append_drafts((self._core.subject(artifacts.kind, *keys), drafts))
            return gone

    async def _remove_bytes(self, keys: Keys, gone: Sequence[Held]) -> None:
        """Remove the bytes of what the log no longer holds: nothing yet, in an atomic block.

        What a session shares with forks, or with its origin, goes with the session that saved it.
        """
        if not gone or (len(keys) == 1 and await relatives(self._core, keys[0])):
            return
        standing = (await self._core.read(artifacts.kind, *keys, consistency="strong")).state
        ids = {held.id for held in standing.values()}
        for held in gone:
            if held.id not in ids:
                await self._store.blobs.remove(Key(artifacts.kind, keys), held.saved.blob)

    async def _bytes(self, artifact_id: str, keys: Keys | None = None) -> bytes | None:
        found = await self._find(artifact_id, keys)
        while found is not None:
            try:
                view = Key(artifacts.kind, found.keys)
                data = await self._store.blobs.read(view, found.held.saved.blob)
                if data is None:
                    raise self._missing(found)
            except (LogCorrupt, PastErased):
                # Somebody may have deleted it meanwhile, or deleted it and saved it again.
                again = await self._find(artifact_id, keys, "strong")
                if again == found:
                    raise
                found = again
            else:
                self._note_read(artifact_id)
                return data
        return None

    def _missing(self, found: _Found) -> FoldlogError:
        keys, held = found
        if session_keys(held.saved.scope) != keys:
            reason = "its bytes were removed before the session was forked"
            return PastErased(f"artifact {held.saved.artifact_id} of {keys[0]!r:.80}", reason)
        reason = f"the bytes of artifact {held.saved.artifact_id} are missing"
        return LogCorrupt(self._core.subject(artifacts.kind, *keys).name, held.seq, reason)

    async def _locate(self, artifact_id: str, keys: Keys) -> None:
        """Append where an artifact is. That never changes; appending it twice is harmless.

        Directly, also inside `atomic()`: it may live on another shard, and has no effect before its
        session's subject has the artifact.
        """
        view = artifact.kind(artifact_id)
        pointer = encode(artifact.kind, Located(keys))
        subject = self._core.subject(view.kind, *view.keys)
        await self._core.append_at_once([Append(subject, (pointer,))], atomic=False)

    async def _find(
        self, artifact_id: str, keys: Keys | None = None, consistency: Consistency = "session"
    ) -> _Found | None:
        """The artifact in the session of `keys`.

        Without keys: where it was saved or, if it is gone there, in a fork that has it.
        """
        where = keys or await self._located(artifact_id)
        ahead = [where] if where is not None else []
        for each in ahead:
            folded = await self._core.read(artifacts.kind, *each, consistency=consistency)
            held = self._alive(folded, artifact_id)
            if held is not None:
                return _Found(each, held)
            if keys is None and len(each) == 1:
                forks = (await lineage_of(self._core, each[0], consistency)).forks
                ahead += [(fork,) for fork in forks]
        return None

    async def _located(self, artifact_id: str) -> Keys | None:
        # From the log: a pointer goes without a trace, which a hot view would take for a loss.
        subject = self._core.subject(artifact.kind, artifact_id)
        record = await self._core.forked_log.last(subject)
        last = None if record is None else record.envelopes[-1]
        return load(Located, last.payload).keys if last and last.type != CLEARED else None

    def _alive(self, folded: Folded[dict[str, Held]], artifact_id: str) -> Held | None:
        held = folded.state.get(artifact_id)
        return held if held is not None and held.expires_at > self._core.now() else None


def _deletion(held: Held) -> Draft:
    body = dump(Deleted(held.saved.artifact_id, held.id))
    # The id follows from what is deleted: several who delete the same save have one effect.
    return draft(artifacts.DELETED, body, id=f"deleted:{held.id}")
