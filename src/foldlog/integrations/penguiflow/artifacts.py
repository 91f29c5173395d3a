"""PenguiFlow's ArtifactStore on foldlog's, for `discover_artifact_store` and the playground."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from foldlog.integrations.penguiflow.classes import installed
from foldlog.integrations.penguiflow.degrading import (
    Adapter,
    at_once,
    or_empty,
    or_false,
    or_nothing,
)
from foldlog.integrations.penguiflow.line import Call
from foldlog.integrations.penguiflow.plain import callers_code, plain
from foldlog.models import ArtifactRef, ArtifactScope

_NO_SESSION: Final = "default"
"""The session of artifacts without a scope, as in PenguiFlow's own session-aware store."""


class PenguiFlowArtifactStore:
    """The artifacts of one `PenguiFlowStateStore`, made by `store.artifact_store`; lives with it.

    Its methods are those of `foldlog.Store.artifact_store`. Where the store degrades, reads that
    fail find nothing; saves raise all the same, because there is no reference to give back for what
    is not stored.
    """

    def __init__(self, owner: Adapter) -> None:
        self._owner = owner  # a reference: it closes when nobody refers to it any more
        self._reach = owner._reach
        self._failures = owner._failures

    async def put_bytes(
        self,
        data: bytes,
        *,
        mime_type: str | None = None,
        filename: str | None = None,
        namespace: str | None = None,
        scope: Any | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Any:
        """Keep the bytes and return their `ArtifactRef`."""
        named = {"mime_type": mime_type, "filename": filename, "namespace": namespace}
        return await self._put("put_bytes", lambda: _content(data), scope, meta, named)

    async def put_text(
        self,
        text: str,
        *,
        mime_type: str = "text/plain",
        filename: str | None = None,
        namespace: str | None = None,
        scope: Any | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Any:
        """Keep the text as UTF-8 and return its `ArtifactRef`."""
        named = {"mime_type": mime_type, "filename": filename, "namespace": namespace}
        return await self._put("put_text", lambda: text, scope, meta, named)

    async def _put(
        self, method: str, content: Callable[[], Any], scope: Any, meta: Any, named: dict[str, Any]
    ) -> Any:
        with callers_code(method):
            owner, kept, given = _owner(scope), plain(meta), content()  # as it is now
        ref = await self._reach.write(
            lambda store: getattr(store.artifact_store, method)(
                given, scope=owner, meta=kept, **named
            ),
            self._failures.of(method, owner.trace_id),
        )
        return _reference(ref)

    @or_nothing
    async def get(self, artifact_id: str) -> bytes | None:
        """Return the bytes, or None."""
        return await self._reach.read(lambda store: store.artifact_store.get(artifact_id))

    @or_nothing
    async def get_with_session_check(self, artifact_id: str, session_id: str) -> bytes | None:
        """Return the bytes if the artifact belongs to that session, else None."""
        return await self._reach.read(
            lambda store: store.artifact_store.get_with_session_check(artifact_id, session_id)
        )

    @or_nothing
    async def get_ref(self, artifact_id: str) -> Any | None:
        """Return the `ArtifactRef`, or None."""
        ref = await self._reach.read(lambda store: store.artifact_store.get_ref(artifact_id))
        return None if ref is None else _reference(ref)

    @or_false
    async def exists(self, artifact_id: str) -> bool:
        """Return whether `get` would find it."""
        return await self._reach.read(lambda store: store.artifact_store.exists(artifact_id))

    @or_false
    async def delete(self, artifact_id: str) -> bool:
        """Remove it; return whether there was one."""
        return await self._reach.write(
            lambda store: store.artifact_store.delete(artifact_id), self._failures.of("delete")
        )

    @or_empty
    async def list(self, *, scope: Any | None = None) -> list[Any]:
        """Return the `ArtifactRef`s whose scope has every field that `scope` has."""
        with callers_code("list"):
            wanted = None if scope is None else installed().scope.to_ours(scope)
        refs = await self._reach.read(lambda store: store.artifact_store.list(scope=wanted))
        return [_reference(ref) for ref in refs]

    @at_once
    def clear_session(self, session_id: str) -> Call[None]:
        """Remove a session's artifacts before returning; may be awaited."""
        return lambda store: store.artifact_store.clear_session(session_id)

    @at_once
    def clear(self) -> Call[None]:
        """Remove all artifacts before returning; may be awaited."""
        return lambda store: store.artifact_store.clear()


def _owner(scope: Any | None) -> ArtifactScope:
    if scope is None:
        return ArtifactScope(session_id=_NO_SESSION)
    return installed().scope.to_ours(scope)


def _content(data: bytes | bytearray | memoryview) -> bytes:
    # Not `bytes(data)`, which makes that many zeros of a number.
    return data if type(data) is bytes else bytes(memoryview(data))


def _reference(ref: ArtifactRef) -> Any:
    return installed().artifact.to_theirs(ref)
