"""Artifact references: what a save says, and what a reader gets. No I/O."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

import msgspec

from foldlog import codec
from foldlog.errors import PayloadError
from foldlog.models import ArtifactRef, ArtifactScope
from foldlog.store.guards import drafting
from foldlog.store.payloads import mapping
from foldlog.subjects import checked_id
from foldlog_projections.artifacts import Saved, Scope

Keys = tuple[str, ...]

NO_SESSION: Final[Keys] = ("__global__", "no-session")
"""Two keys, so that no session's id, which is one, can mean what belongs to no session."""

_PREFIX_CHARACTERS: Final = 40
_NOT_IN_AN_ID: Final = re.compile(r"[^A-Za-z0-9_-]+")
_FIELDS: Final = ("tenant_id", "user_id", "session_id", "trace_id")


@drafting("scope")
def describe(
    sha256: str,
    size_bytes: int,
    *,
    mime_type: str | None,
    filename: str | None,
    namespace: str | None,
    scope: ArtifactScope | None,
    meta: dict[str, Any] | None,
) -> Saved:
    """Return what a save of that content says, but for where the bytes are and for how long.

    Raises:
        PayloadError: `meta` or `namespace` cannot be held.
        InvalidId: a field of the scope is empty or no valid string.
    """
    owner = None if scope is None else Scope(*(_checked(scope, field) for field in _FIELDS))
    return Saved(
        artifact_id=_artifact_id(sha256, namespace, owner),
        sha256=sha256,
        size_bytes=size_bytes,
        mime_type=mime_type,
        filename=filename,
        namespace=namespace,
        scope=owner,
        source=msgspec.Raw(codec.encode(_named(meta or {}), "meta")),
    )


@drafting("scope")
def session_keys(scope: ArtifactScope | Scope | None) -> Keys:
    """Return the keys of the subject on which artifacts of that scope stand.

    Raises:
        InvalidId: the session id is empty or no valid string.
    """
    if scope is None or scope.session_id is None:
        return NO_SESSION
    return (checked_id(scope.session_id, "session_id"),)


def reference(saved: Saved) -> ArtifactRef:
    """Return a reference that shares nothing with any other."""
    owner = saved.scope
    scope = ArtifactScope(**{field: getattr(owner, field) for field in _FIELDS}) if owner else None
    return ArtifactRef(
        id=saved.artifact_id,
        mime_type=saved.mime_type,
        size_bytes=saved.size_bytes,
        filename=saved.filename,
        sha256=saved.sha256,
        scope=scope,
        namespace=saved.namespace,
        source=codec.decode(saved.source),
    )


def of_session(saved: Saved, keys: Keys) -> Saved:
    """What a save says, as seen from the session of these keys: a fork's is the fork's own."""
    if saved.scope is None or (saved.scope.session_id,) == keys or len(keys) != 1:
        return saved
    scope = msgspec.structs.replace(saved.scope, session_id=keys[0])
    return msgspec.structs.replace(saved, scope=scope)


def matches(saved: Saved, scope: ArtifactScope | None) -> bool:
    """Whether the artifact has every field that `scope` has; None in `scope` asks for nothing."""
    if scope is None:
        return True
    wanted = {field: value for field in _FIELDS if (value := getattr(scope, field)) is not None}
    return all(getattr(saved.scope, field, None) == value for field, value in wanted.items())


def checked_bytes(data: bytes | bytearray | memoryview) -> bytes:
    """Return the bytes as they are now.

    Raises:
        PayloadError: it is something else.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise PayloadError("data", f"bytes are needed, not {type(data).__name__}")
    return bytes(data)


def checked_text(text: str) -> bytes:
    """Return the text as UTF-8.

    Raises:
        PayloadError: it is something else, or holds a lone surrogate.
    """
    if not isinstance(text, str):
        raise PayloadError("text", f"a string is needed, not {type(text).__name__}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise PayloadError("text", f"a lone surrogate at character {error.start}") from None


def _named(meta: dict[str, Any]) -> dict[str, Any]:
    """Metadata under names that are text: a reference can have no others."""
    for name in mapping(meta, "meta"):
        if not isinstance(name, str):
            raise PayloadError("meta", f"a name is a string, not {type(name).__name__}")
    return meta


def _artifact_id(sha256: str, namespace: str | None, scope: Scope | None) -> str:
    """`<namespace or "art">_<32 hex digits>`: enough of them that nobody can make two collide."""
    if namespace is not None and not isinstance(namespace, str):
        raise PayloadError("namespace", f"a string is needed, not {type(namespace).__name__}")
    owner = [getattr(scope, field, None) for field in _FIELDS]
    identity = codec.encode([sha256, namespace, owner], "namespace")
    prefix = _NOT_IN_AN_ID.sub("_", namespace or "").strip("_-")[:_PREFIX_CHARACTERS] or "art"
    return f"{prefix}_{hashlib.sha256(identity).hexdigest()[:32]}"


def _checked(scope: ArtifactScope, field: str) -> str | None:
    value: str | None = getattr(scope, field)
    return None if value is None else checked_id(value, field)
