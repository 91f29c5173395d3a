"""The ArtifactBackend: large objects of executions, each content stored once."""

from __future__ import annotations

import functools
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from foldlog.errors import FoldlogError, LogCorrupt
from foldlog.kind import Key
from foldlog.recovery import codecs
from foldlog.recovery.codecs import Encoded
from foldlog.recovery.snapshots import artifacts_of
from foldlog.recovery.writing import listed_states, read_state
from foldlog.store.blobs import COLLECTED_SECONDS, BlobStore, digest
from foldlog.store.operation import Calls, operation
from foldlog.store.primitives import Primitives
from foldlog.subjects import checked_id
from foldlog_projections import stateartifacts
from foldlog_projections.blobs import Claim
from foldlog_projections.stateartifacts import Named

GARBAGE_SECONDS: Final = COLLECTED_SECONDS
"""Seconds in which the checkpoint that refers to a saved artifact must come."""


class Garbage(NamedTuple):
    """What `collect_garbage` removed.

    Attributes:
        artifact_ids: the artifacts.
        bytes: bytes that went with them.
    """

    artifact_ids: tuple[str, ...]
    bytes: int


_operation: Final = functools.partial(operation, prefix="recovery.artifacts.")


class ArtifactBackend:
    """Artifacts by id, made by `store.recovery.artifacts`. Lives as long as its store.

    Bytes, text and plain data come back exactly; other objects need `with_codec`. A content is
    stored once, under however many ids. Inside `store.atomic()` an artifact is named with the
    block; its bytes are stored at once.
    """

    def __init__(self, store: Primitives, blobs: BlobStore, codec: str | None = None) -> None:
        self.calls: Calls = store.calls
        self._store = store
        self._blobs = blobs
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
        return type(self)(self._store, self._blobs, codecs.checked(codec))

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
        failed: tuple[Named, str] | None = None
        while True:
            named = await self._named(artifact_id)
            if named is None:
                return None
            copy = await self._blobs.copy_of(named.sha256, _claim(artifact_id))
            if copy is None:
                return None
            try:
                data, reason = await self._blobs.get(copy), "its bytes are missing"
            except LogCorrupt as fault:
                data, reason = None, fault.reason
            if data is not None:
                return _decoded(artifact_id, Encoded(named.codec, data), self._codec)
            # Somebody may have replaced or deleted it meanwhile: look again.
            if failed == (named, copy):
                raise _corrupt(artifact_id, reason)
            failed = (named, copy)

    @_operation(writes=True)
    async def delete_artifact(self, artifact_id: str) -> bool:
        """Remove an artifact; return whether there was one. Its bytes go with their last id.

        Snapshots that refer to it are not searched; `collect_garbage` does that.

        Args:
            artifact_id: the id.

        Raises:
            InvalidId: the id is empty.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: it may remain; delete again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        named = await self._named(artifact_id)
        if named is None:
            return False
        return await self._blobs.release(named.sha256, _claim(artifact_id)) is not None

    async def artifacts_of(self, state_id: str) -> list[Key[Any]]:
        """Internal: the views of the artifacts of a state; none if it cannot be read."""
        with suppress(LogCorrupt):
            referred = artifacts_of(await read_state(self._store, state_id))
            return [stateartifacts.kind(each) for each in sorted(referred)]
        return []

    async def delete_artifacts_of(self, state_id: str) -> None:
        """Remove the artifacts to which this state refers and no other one does.

        It reads every state if this one refers to any; where a state cannot be read, the artifacts
        are left to `collect_garbage`. An execution that saves the same content at the same moment
        may lose it. Erasing a session calls this for each execution that belongs to the session.

        Args:
            state_id: the state.

        Raises:
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: some may remain; call again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        with suppress(LogCorrupt):
            referred = artifacts_of(await read_state(self._store, state_id))
            kept = await self._referred_to(but=state_id) if referred else set()
            for artifact_id in referred - kept:
                await self.delete_artifact(artifact_id)

    @_operation()
    async def exists(self, artifact_id: str) -> bool:
        """Return whether there is an artifact of that id.

        Args:
            artifact_id: the id.

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        named = await self._named(artifact_id)
        if named is None:
            return False
        return await self._blobs.copy_of(named.sha256, _claim(artifact_id)) is not None

    @_operation()
    async def list_artifacts(self) -> list[str]:
        """Return the ids of all artifacts, sorted. It is for operators: it reads each of them.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        keys = await self._store.keys(stateartifacts.kind)
        return [key.keys[0] for key in keys if await self.exists(key.keys[0])]

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
        if named is None:
            return None
        content = await self._blobs.read(named.sha256)
        return content.size if _claim(artifact_id) in content.claims else None

    @_operation(writes=True)
    async def collect_garbage(self, *, older_than: float = GARBAGE_SECONDS) -> Garbage:
        """Remove the artifacts that no snapshot refers to, and return which.

        With them go the bytes that any save of the store has left behind when it was cut short. It
        is for operators: it reads every state and every content.

        Args:
            older_than: seconds since an artifact was saved last, for it to be garbage. It must
                exceed the time between saving one and the checkpoint that refers to it. Below ten
                minutes nobody else may be saving.

        Raises:
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: some may remain; collect again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        # Contents first: what is stored from now on is not looked at, what was is referred to by
        # a checkpoint that is on record by now, or is too young.
        contents = await self._blobs.all()
        referred = await self._referred_to()

        async def is_used(sha256: str, claim: Claim) -> bool:
            # A save that was cut short may have claimed another content, too.
            named = await self._named(claim.id) if claim.id in referred else None
            return named is not None and named.sha256 == sha256

        users = {stateartifacts.kind.name: is_used}
        collected = await self._blobs.collect(contents, users, older_than=older_than)
        removed = [claim.id for claim, _ in collected if claim.family == stateartifacts.kind.name]
        return Garbage(tuple(removed), sum(freed for _, freed in collected))

    async def _referred_to(self, *, but: str = "") -> set[str]:
        """The ids of the artifacts to which states refer; `but` is a state that does not count."""
        referred: set[str] = set()
        for listed in await listed_states(self._store):
            if listed.state_id != but:
                referred |= artifacts_of(await read_state(self._store, listed.state_id))
        return referred

    def _encoded(self, method: str, artifact: Any, artifact_id: str | None = None) -> Encoded:
        about = {"artifact_id": artifact_id, "codec": self._codec}
        redacted = self._store.redaction.value(
            f"ArtifactBackend.{method}", stateartifacts.NAMED, about, artifact=artifact
        )
        return codecs.encode(redacted, self._codec)

    async def _save(self, artifact_id: str, encoded: Encoded) -> None:
        # The content first, then that the artifact leads there. What is cut short leaves a claim
        # that leads nowhere, never an artifact without bytes; and so does what gives way. Both
        # are for `collect_garbage`: nobody else can tell them from a save that is under way.
        new = Named(await digest(encoded.data), encoded.codec)
        await self._blobs.claim(_claim(artifact_id), encoded.data, new.sha256)

        def name(before: Any) -> list[Named]:
            return [] if before == new else [new]

        await self._store.decide(stateartifacts.kind(artifact_id), name)

    async def _named(self, artifact_id: str) -> Named | None:
        named: Named | None = await self._store.view(
            stateartifacts.kind(artifact_id), consistency="strong"
        )
        return named


def _claim(artifact_id: str) -> Claim:
    return Claim(stateartifacts.kind.name, (), artifact_id)


def _decoded(artifact_id: str, encoded: Encoded, opted_in: str | None) -> Any:
    try:
        return codecs.decode(encoded, opted_in)
    except (ValueError, msgspec.MsgspecError) as fault:
        if isinstance(fault, FoldlogError):
            raise
        raise _corrupt(artifact_id, f"{encoded.codec}: {fault}") from fault


def _corrupt(artifact_id: str, reason: str) -> LogCorrupt:
    return LogCorrupt(stateartifacts.kind.name, 0, f"artifact {artifact_id!r:.80}: {reason}")
