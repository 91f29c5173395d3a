"""The ArtifactBackend: large objects of executions by id."""

from __future__ import annotations

import functools
import time
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from foldlog.errors import FoldlogError, LogCorrupt
from foldlog.integrations.rh_agents import codecs
from foldlog.integrations.rh_agents.codecs import Encoded
from foldlog.opening.states import referred_to
from foldlog.store.blobs import LOOSE_SECONDS, digest
from foldlog.store.clearing import clear
from foldlog.store.core import Capability, core_of
from foldlog.store.operation import operation
from foldlog.store.store import BaseStore
from foldlog.subjects import checked_id
from foldlog_projections.rh_agents import stateartifacts
from foldlog_projections.rh_agents.stateartifacts import Named

GARBAGE_SECONDS: Final = LOOSE_SECONDS
"""Seconds in which the checkpoint that refers to a saved artifact must come."""

_RENEWED_SECONDS: Final = 600.0
"""How old an artifact may be that is saved again without a record of it."""


class Garbage(NamedTuple):
    """What `collect_garbage` removed.

    Attributes:
        artifact_ids: the artifacts.
        bytes: bytes that went with them.
    """

    artifact_ids: tuple[str, ...]
    bytes: int


_operation: Final = functools.partial(operation, prefix="rh_agents.artifacts.")


class ArtifactBackend(Capability):
    """Artifacts by id, the `artifacts` of a `StateBackend`. Lives as long as its store.

    Bytes, text and plain data come back exactly; other objects need `with_codec`. Inside
    `store.atomic()` an artifact is named with the block; its bytes are stored at once.

    Args:
        store: an open store.
        codec: as for `with_codec`. None: one that suits the artifact's type.
    """

    def __init__(self, store: BaseStore, codec: str | None = None) -> None:
        super().__init__(core_of(store))
        self._store = store
        self._codec = codec

    @property
    def codec(self) -> str | None:
        """The codec that was named; None: one that suits the artifact's type."""
        return self._codec

    def with_codec(self, codec: str) -> ArtifactBackend:
        """Return the same artifacts, saved by another codec from now on.

        Loading a pickle can run any code: use "pickle" only for artifacts whose writers you trust.

        Args:
            codec: "pickle", which takes any object.

        Raises:
            ConfigurationError: there is no such codec.
        """
        return type(self)(self._store, codecs.checked(codec))

    def artifact_id(self, artifact: Any) -> str:
        """Return the id that follows from an artifact's content, as it would be stored.

        Args:
            artifact: bytes, text, data that the log can hold, or what the codec takes.

        Raises:
            PayloadError: the codec cannot hold it.
            RedactionFailed: `redact=` failed.
        """
        return self._encoded("artifact_id", artifact).artifact_id

    @_operation(writes=True)
    async def add_artifact(self, artifact: Any) -> str:
        """Save an artifact under the id that follows from its content; return the id.

        Args:
            artifact: bytes, text, data that the log can hold, or what the codec takes.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
        """
        encoded = self._encoded("add_artifact", artifact)
        await self._save(encoded.artifact_id, encoded)
        return encoded.artifact_id

    @_operation(writes=True)
    async def save_artifact(self, artifact_id: str, artifact: Any) -> bool:
        """Save an artifact under an id, in place of what was there. Returns True.

        Args:
            artifact_id: the id.
            artifact: bytes, text, data that the log can hold, or what the codec takes.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
        """
        checked_id(artifact_id, "artifact_id")
        await self._save(artifact_id, self._encoded("save_artifact", artifact, artifact_id))
        return True

    @_operation()
    async def load_artifact(self, artifact_id: str) -> Any | None:
        """Return the artifact, a new object, or None if there is none of that id.

        Args:
            artifact_id: the id.

        Raises:
            InvalidId: the id is empty.
            ConfigurationError: it is a pickle: `with_codec("pickle")` loads it.
            LogUnavailable, LogCorrupt: the log did not answer, or the bytes are not whole.
            StoreClosed: the store is closed.
        """
        key, failed = stateartifacts.kind(artifact_id), None
        while (named := await self._named(artifact_id)) is not None:
            try:
                data = await self._store.blobs.read(key, named.blob)
                reason = "its bytes are missing"
            except LogCorrupt as fault:
                data, reason = None, fault.reason
            if data is not None:
                return _decoded(artifact_id, Encoded(named.codec, data), self._codec)
            # Somebody may have replaced or deleted it meanwhile: look again.
            if failed == named:
                raise _corrupt(artifact_id, reason)
            failed = named
        return None

    @_operation(writes=True)
    async def delete_artifact(self, artifact_id: str) -> bool:
        """Remove an artifact with its bytes; return whether there was one.

        Snapshots that refer to it are not searched; `collect_garbage` does that.

        Args:
            artifact_id: the id.

        Raises:
            InvalidId: the id is empty.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: it may remain; delete again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        [held] = await clear(self._core, [stateartifacts.kind(artifact_id)])
        return held.folded.state is not None

    @_operation()
    async def exists(self, artifact_id: str) -> bool:
        """Return whether there is an artifact of that id.

        Args:
            artifact_id: the id.

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return await self._named(artifact_id) is not None

    @_operation()
    async def list_artifacts(self) -> list[str]:
        """Return the ids of all artifacts, sorted. It is for operators: it reads each of them.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        keys = await self._store.keys(stateartifacts.kind)
        found = zip(keys, await self._store.views(keys, consistency="strong"), strict=True)
        return [key.keys[0] for key, named in found if named is not None]

    @_operation()
    async def get_size(self, artifact_id: str) -> int | None:
        """Return how many bytes an artifact takes as it is stored, or None if there is none.

        Args:
            artifact_id: the id.

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        named = await self._named(artifact_id)
        return None if named is None else await self._size(artifact_id, named)

    @_operation(writes=True)
    async def collect_garbage(self, *, older_than: float = GARBAGE_SECONDS) -> Garbage:
        """Remove the artifacts that no snapshot refers to, and return which.

        It is for operators: it reads every state and every artifact. `store.blobs.sweep` removes
        the bytes of saves that were cut short.

        Args:
            older_than: seconds since an artifact was saved last, for it to be garbage. It must
                exceed the time between saving one and the checkpoint that refers to it. Below ten
                minutes nobody else may be saving.

        Raises:
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: some may remain; collect again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        # Artifacts first: what is saved from now on is not looked at, and what was is referred to
        # by a checkpoint that is on record by now, or is too young.
        keys = await self._store.keys(stateartifacts.kind)
        referred, now = await referred_to(self._store), time.time()
        removed, freed = list[str](), 0
        for key in keys:
            [artifact_id] = key.keys
            items = await self._store.items(key, limit=1, newest_first=True, consistency="strong")
            is_old = all(now - item.recorded_at >= older_than for item in items)
            if items and is_old and artifact_id not in referred:
                removed.append(artifact_id)
                with suppress(LogCorrupt):  # damaged bytes are garbage, too
                    freed += await self._size(artifact_id, items[0].record)
                await self.delete_artifact(artifact_id)
        return Garbage(tuple(removed), freed)

    def _encoded(self, method: str, artifact: Any, artifact_id: str | None = None) -> Encoded:
        about = {"artifact_id": artifact_id, "codec": self._codec}
        redacted = self._core.redaction.value(
            f"ArtifactBackend.{method}", stateartifacts.NAMED, about, artifact=artifact
        )
        return codecs.encode(redacted, self._codec)

    async def _save(self, artifact_id: str, encoded: Encoded) -> None:
        # The bytes first: what is cut short leaves bytes without an artifact, never the reverse.
        key, sha256 = stateartifacts.kind(artifact_id), await digest(encoded.data)
        items = await self._store.items(key, limit=1, newest_first=True, consistency="strong")
        before = items[0].record if items else None
        is_same = before is not None and (before.sha256, before.codec) == (sha256, encoded.codec)
        # What is older is saved anew: the checkpoint that refers to it may still come.
        if is_same and time.time() - items[0].recorded_at <= _RENEWED_SECONDS:
            return
        blob = await self._store.blobs.put(key, encoded.data)
        await self._store.append(key, Named(sha256, encoded.codec, blob, len(encoded.data)))
        await self._store.blobs.keep(key, blob, encoded.data)
        if before is not None:
            await self._store.blobs.remove(key, before.blob)

    async def _size(self, artifact_id: str, named: Named) -> int:
        if named.size:
            return named.size
        data = await self._store.blobs.read(stateartifacts.kind(artifact_id), named.blob)
        return len(data or b"")

    async def _named(self, artifact_id: str) -> Named | None:
        named: Named | None = await self._store.view(
            stateartifacts.kind(artifact_id), consistency="strong"
        )
        return named


def _decoded(artifact_id: str, encoded: Encoded, opted_in: str | None) -> Any:
    try:
        return codecs.decode(encoded, opted_in)
    except (ValueError, msgspec.MsgspecError) as fault:
        if isinstance(fault, FoldlogError):
            raise
        raise _corrupt(artifact_id, f"{encoded.codec}: {fault}") from fault


def _corrupt(artifact_id: str, reason: str) -> LogCorrupt:
    return LogCorrupt(stateartifacts.kind.name, 0, f"artifact {artifact_id!r:.80}: {reason}")
