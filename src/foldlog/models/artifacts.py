"""References to stored bytes, their readers, and how long they stay."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field


class ArtifactScope(BaseModel):
    """Whom an artifact belongs to. The store records it; the program that serves bytes enforces it.

    Attributes:
        tenant_id, user_id, session_id, trace_id: the owner, as far as it is known.
    """

    # Validators are built on first use: importing foldlog stays cheap.
    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)

    tenant_id: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    trace_id: str | None = None


class ArtifactRef(BaseModel):
    """The compact stand-in for an artifact's bytes, small enough to show to a model.

    Attributes:
        id: the artifact's id.
        mime_type: what the bytes are.
        size_bytes: how many bytes there are.
        filename: a name for a download; never used as a path.
        sha256: the hex digest of the whole content.
        scope: whom it belongs to.
        namespace: what made it.
        source: the `meta` that it was saved with.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)

    id: str
    mime_type: str | None = None
    size_bytes: int | None = None
    filename: str | None = None
    sha256: str | None = None
    scope: ArtifactScope | None = None
    namespace: str | None = None
    source: dict[str, Any] = Field(default_factory=dict)


class ArtifactRetentionConfig(BaseModel):
    """How long and how much a store keeps.

    Attributes:
        ttl_seconds: seconds until an artifact expires.
        max_artifact_bytes: bytes of one artifact.
        max_session_bytes: bytes of all artifacts of a session.
        max_trace_bytes: bytes of all artifacts of a trace.
        max_artifacts_per_trace: how many artifacts a trace may have.
        max_artifacts_per_session: how many artifacts a session may have.
        cleanup_strategy: what happens at a limit: "lru" removes the artifact that was read longest
            ago, "fifo" the oldest; "none" refuses the new one.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)

    ttl_seconds: int = 3600
    max_artifact_bytes: int = 50_000_000
    max_session_bytes: int = 500_000_000
    max_trace_bytes: int = 100_000_000
    max_artifacts_per_trace: int = 100
    max_artifacts_per_session: int = 1000
    cleanup_strategy: Literal["lru", "fifo", "none"] = "lru"
