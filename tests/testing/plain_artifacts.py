"""Artifacts in a dict, kept as long and as much as `ArtifactRetentionConfig` says."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foldlog.models import ArtifactRef, ArtifactRetentionConfig, ArtifactScope
from tests.testing.copying import copied, fingerprint

if TYPE_CHECKING:
    from tests.testing.plain_store import Data

NOBODY = ArtifactScope()


class Refused(Exception):
    """It does not fit."""


@dataclass
class Artifact:
    """What is held. `read` counts reads and saves: the least was used longest ago."""

    ref: ArtifactRef
    data: bytes
    expiry: float
    read: int

    @property
    def scope(self) -> ArtifactScope:
        return self.ref.scope or NOBODY


class PlainArtifacts:
    """The correct artifact store from which the broken ones are made."""

    def __init__(self, data: Data, retention: ArtifactRetentionConfig) -> None:
        self.data = data
        self.retention = retention

    # --- what is there ----------------------------------------------------------------------------

    async def put_bytes(
        self,
        data: bytes,
        *,
        mime_type: str | None = None,
        filename: str | None = None,
        namespace: str | None = None,
        scope: ArtifactScope | None = None,
        meta: dict[str, Any] | None = None,
    ) -> ArtifactRef:
        ref = ArtifactRef(
            id=self.name(data, namespace, scope),
            mime_type=mime_type,
            size_bytes=len(data),
            filename=filename,
            sha256=hashlib.sha256(data).hexdigest(),
            scope=self.taken(scope),
            namespace=namespace,
            source=self.taken(meta or {}),
        )
        held = self.held
        if ref.id not in held:
            self.make_room(ref)
            expiry = self.data.clock.now + self.retention.ttl_seconds
            held[ref.id] = Artifact(ref, self.encoded(data), expiry, self.tick())
        return self.given(held[ref.id].ref)

    async def put_text(
        self, text: str, *, mime_type: str = "text/plain", **described: Any
    ) -> ArtifactRef:
        return await self.put_bytes(text.encode(), mime_type=mime_type, **described)

    async def get(self, artifact_id: str) -> bytes | None:
        held = self.find(artifact_id)
        if held is None:
            return None
        held.read = self.tick()
        return held.data

    async def get_ref(self, artifact_id: str) -> ArtifactRef | None:
        held = self.find(artifact_id)
        return None if held is None else self.given(held.ref)

    async def delete(self, artifact_id: str) -> bool:
        return self.held.pop(artifact_id, None) is not None

    async def exists(self, artifact_id: str) -> bool:
        return self.find(artifact_id) is not None

    async def list(self, *, scope: ArtifactScope | None = None) -> list[ArtifactRef]:
        wanted = (scope or NOBODY).model_dump(exclude_none=True)
        return [
            self.given(held.ref)
            for held in self.held.values()
            if wanted.items() <= held.scope.model_dump().items()
        ]

    async def get_with_session_check(self, artifact_id: str, session_id: str) -> bytes | None:
        held = self.held.get(artifact_id)
        return held.data if held is not None and held.scope.session_id == session_id else None

    # --- how it is kept: what the broken ones override --------------------------------------------

    @property
    def held(self) -> dict[str, Artifact]:
        """What has not expired."""
        held = self.data.artifacts
        for artifact_id in [each for each in held if self.is_over(held[each])]:
            del held[artifact_id]
        return held

    def is_over(self, artifact: Artifact) -> bool:
        return self.data.clock.now >= artifact.expiry

    def find(self, artifact_id: str) -> Artifact | None:
        return self.held.get(artifact_id)

    def name(self, data: bytes, namespace: str | None, scope: ArtifactScope | None) -> str:
        owner = None if scope is None else scope.model_dump()
        return fingerprint([hashlib.sha256(data).hexdigest(), namespace, owner])

    def encoded(self, data: bytes) -> bytes:
        return bytes(data)

    def taken(self, value: Any) -> Any:
        return copied(value)

    def given(self, value: Any) -> Any:
        return copied(value)

    def tick(self) -> int:
        self.data.reads += 1
        return self.data.reads

    # --- limits -----------------------------------------------------------------------------------

    def make_room(self, new: ArtifactRef) -> None:
        """Evict what has to go for `new` to fit; with strategy "none", nothing may."""
        size = new.size_bytes or 0
        limit = self.retention
        if size > limit.max_artifact_bytes:
            raise Refused
        gone: list[Artifact] = []
        for part, count, total in (
            ("trace_id", limit.max_artifacts_per_trace, limit.max_trace_bytes),
            ("session_id", limit.max_artifacts_per_session, limit.max_session_bytes),
        ):
            members = [each for each in self.members(part, new) if each not in gone]
            while len(members) >= count or sum(len(m.data) for m in members) + size > total:
                if not members or limit.cleanup_strategy == "none":
                    raise Refused
                gone.append(members.pop(0))
        for artifact in gone:
            del self.held[artifact.ref.id]

    def members(self, part: str, new: ArtifactRef) -> list[Artifact]:
        """What counts against the same limit as `new`, first to go first."""
        owner = getattr(new.scope or NOBODY, part)
        found = [each for each in self.held.values() if getattr(each.scope, part) == owner]
        return sorted(found, key=self.going)

    def going(self, artifact: Artifact) -> int:
        """What is least goes first: it was read longest ago, or saved; a dict is in that order."""
        return artifact.read if self.retention.cleanup_strategy == "lru" else 0
