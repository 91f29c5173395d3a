"""What an artifact's save says, what a reader gets, and what has to go for it to fit. No I/O."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from foldlog import codec
from foldlog.errors import ArtifactLimitExceeded, PayloadError
from foldlog.models import ArtifactRef, ArtifactRetentionConfig, ArtifactScope
from foldlog.store.payloads import drafting, mapping
from foldlog.subjects import checked_id
from foldlog_projections.artifacts import Held, Saved, Scope

Keys = tuple[str, ...]

NO_SESSION: Final[Keys] = ("__global__", "no-session")
"""Two keys, so that no session's id, which is one, can mean what belongs to no session."""

_PREFIX_CHARACTERS: Final = 40
_NOT_IN_AN_ID: Final = re.compile(r"[^A-Za-z0-9_-]+")
_FIELDS: Final = Scope.__struct_fields__

_EXPIRED_AT_ONCE: Final = 64
"""How many expired artifacts one save removes, so that it ends."""


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
    """Return the save of a content, without its copy and life span."""
    values = {field: getattr(scope, field) for field in _FIELDS} if scope is not None else {}
    for field, value in values.items():
        if value is not None:
            checked_id(value, field)
    owner = Scope(**values) if scope is not None else None
    source = mapping(meta or {}, "meta")
    for name in source:
        if not isinstance(name, str):
            raise PayloadError("meta", f"a name is a string, not {type(name).__name__}")
    return Saved(
        artifact_id=_artifact_id(sha256, namespace, owner),
        sha256=sha256,
        size_bytes=size_bytes,
        mime_type=mime_type,
        filename=filename,
        namespace=namespace,
        scope=owner,
        source=msgspec.Raw(codec.encode(source, "meta")),
    )


@drafting("scope")
def session_keys(scope: ArtifactScope | Scope | None) -> Keys:
    """Return the keys of the subject that holds artifacts of that scope, or raise InvalidId."""
    if scope is None or scope.session_id is None:
        return NO_SESSION
    return (checked_id(scope.session_id, "session_id"),)


def reference(saved: Saved) -> ArtifactRef:
    """Return a reference that shares nothing with any other."""
    scope = saved.scope
    return ArtifactRef(
        id=saved.artifact_id,
        mime_type=saved.mime_type,
        size_bytes=saved.size_bytes,
        filename=saved.filename,
        sha256=saved.sha256,
        scope=ArtifactScope(**msgspec.structs.asdict(scope)) if scope is not None else None,
        namespace=saved.namespace,
        source=codec.decode(saved.source),
    )


def seen_from(keys: Keys, saved: Saved) -> Saved:
    """What a save says to the session of these keys: what a fork shares is the fork's own."""
    if saved.scope is None or len(keys) != 1:
        return saved
    scope = msgspec.structs.replace(saved.scope, session_id=keys[0])
    return msgspec.structs.replace(saved, scope=scope)


def matches(saved: Saved, scope: ArtifactScope | None) -> bool:
    """Whether the artifact has every field that `scope` has; None in `scope` asks for nothing."""
    return scope is None or all(
        wanted in (None, getattr(saved.scope, field, None))
        for field, wanted in ((field, getattr(scope, field)) for field in _FIELDS)
    )


def checked_bytes(data: bytes | bytearray | memoryview) -> bytes:
    """Return the bytes as they are now; raise PayloadError for anything else."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise PayloadError("data", f"bytes are needed, not {type(data).__name__}")
    return bytes(data)


def checked_text(text: str) -> bytes:
    """Return the text as UTF-8; raise PayloadError for anything else, and for lone surrogates."""
    if not isinstance(text, str):
        raise PayloadError("text", f"a string is needed, not {type(text).__name__}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise PayloadError("text", f"a lone surrogate at character {error.start}") from None


def _artifact_id(sha256: str, namespace: str | None, scope: Scope | None) -> str:
    """`<namespace or "art">_<32 hex digits>`: enough of them that nobody can make two collide."""
    if namespace is not None and not isinstance(namespace, str):
        raise PayloadError("namespace", f"a string is needed, not {type(namespace).__name__}")
    owner = [getattr(scope, field, None) for field in _FIELDS]
    identity = codec.encode([sha256, namespace, owner], "namespace")
    prefix = _NOT_IN_AN_ID.sub("_", namespace or "").strip("_-")[:_PREFIX_CHARACTERS] or "art"
    return f"{prefix}_{hashlib.sha256(identity).hexdigest()[:32]}"


# --- retention ------------------------------------------------------------------------------------


class _Limit(NamedTuple):
    """A limit on what a session holds, or one trace of it."""

    name: str
    owner: str
    trace_id: str | None = None

    def use(self, saved: Saved) -> int:
        """How much of it an artifact uses up."""
        return saved.size_bytes if self.name.endswith("_bytes") else 1


def to_go(
    held: Mapping[str, Held],
    new: Saved,
    retention: ArtifactRetentionConfig,
    *,
    now: float,
    read_at: Mapping[str, float],
) -> list[Held]:
    """Return what of a session must go for `new` to fit: what has expired, and what is evicted.

    "lru" goes by the last read, in Unix seconds by artifact id, or the save if that is later.
    """
    expired = [each for each in held.values() if each.expires_at <= now]
    # The predecessor of `new` first: `new` has no effect before that is gone.
    expired.sort(key=lambda each: each.saved.artifact_id != new.artifact_id)
    alive = [each for each in held.values() if each.expires_at > now]
    if retention.cleanup_strategy == "lru":
        alive.sort(key=lambda each: max(each.ts, read_at.get(each.saved.artifact_id, each.ts)))
    return [*expired[:_EXPIRED_AT_ONCE], *to_evict(alive, new, retention)]


def to_evict(held: Sequence[Held], new: Saved, retention: ArtifactRetentionConfig) -> list[Held]:
    """Return those of `held`, first to go first, that are evicted for `new`."""
    limits = _limits(new.scope or Scope())
    for limit in limits:
        if limit.use(new) > getattr(retention, limit.name):
            raise ArtifactLimitExceeded(limit.owner, limit.name, getattr(retention, limit.name))
    evicted: list[Held] = []
    for limit in limits:
        allowed = getattr(retention, limit.name)
        members = [
            each for each in held if each not in evicted and limit.trace_id in (None, each.trace_id)
        ]
        used = limit.use(new) + sum(limit.use(each.saved) for each in members)
        for candidate in members:
            if used <= allowed:
                break
            if retention.cleanup_strategy == "none":
                raise ArtifactLimitExceeded(limit.owner, limit.name, allowed)
            evicted.append(candidate)
            used -= limit.use(candidate.saved)
    return evicted


def _limits(scope: Scope) -> list[_Limit]:
    """The narrow ones first: what they evict makes space in the wide ones, too."""
    session = f"session {scope.session_id!r}" if scope.session_id else "what belongs to no session"
    names = ("max_artifacts_per_session", "max_session_bytes")
    limits = [_Limit(name, session) for name in names]
    if scope.trace_id is not None:
        trace, names = f"trace {scope.trace_id!r}", ("max_artifacts_per_trace", "max_trace_bytes")
        limits[:0] = [_Limit(name, trace, scope.trace_id) for name in names]
    return limits
