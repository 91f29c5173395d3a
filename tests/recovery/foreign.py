"""An execution as another library has it: its own classes, two backends, and blocking calls.

It knows of a backend only what such libraries define: `save_state`, `load_state`, `save_artifact`
and `load_artifact`.
"""

from __future__ import annotations

import hashlib
import pickle
import uuid
from enum import Enum
from typing import Any, Self

from pydantic import BaseModel, Field


class ForeignStatus(str, Enum):  # noqa: UP042 - as they have it
    RUNNING = "running"
    PAUSED = "paused"


class ForeignMetadata(BaseModel):
    tags: list[str] = Field(default_factory=list)
    description: str = ""
    pipeline_name: str = ""
    parent_state_id: str | None = None
    custom: dict[str, Any] = Field(default_factory=dict)


class ForeignSnapshot(BaseModel):
    state_id: str
    created_at: str
    updated_at: str
    version: str = "1.0.0"
    status: ForeignStatus
    metadata: ForeignMetadata
    execution_state: dict[str, Any]
    artifact_refs: dict[str, str] = Field(default_factory=dict)


class ForeignStorage(BaseModel):
    data: dict[str, Any] = Field(default_factory=dict)
    artifacts: dict[str, Any] = Field(default_factory=dict, exclude=True)


class ForeignHistory(BaseModel):
    events: list[dict[str, Any]] = Field(default_factory=list)


class ForeignState(BaseModel):
    """What is saved as a whole, again and again."""

    state_id: str = Field(default_factory=lambda: str(uuid.uuid4()))
    storage: ForeignStorage = Field(default_factory=ForeignStorage)
    history: ForeignHistory = Field(default_factory=ForeignHistory)
    state_backend: Any = Field(default=None, exclude=True)
    artifact_backend: Any = Field(default=None, exclude=True)

    def record(self, address: str, result: Any) -> None:
        self.history.events.append({"address": address, "result": result})

    def save_checkpoint(self, status: str = "running") -> bool:
        refs = {}
        for key, artifact in self.storage.artifacts.items():
            refs[key] = hashlib.sha256(pickle.dumps(artifact)).hexdigest()
            self.artifact_backend.save_artifact(refs[key], artifact)
        made = ForeignSnapshot(
            state_id=self.state_id,
            created_at="2024-05-15T15:00:00",
            updated_at="2024-05-15T15:00:00",
            status=ForeignStatus(status),
            metadata=ForeignMetadata(),
            execution_state=self.model_dump(),
            artifact_refs=refs,
        )
        saved: bool = self.state_backend.save_state(made)
        return saved

    @classmethod
    def load_from_state_id(
        cls, state_id: str, state_backend: Any, artifact_backend: Any = None
    ) -> Self | None:
        found = state_backend.load_state(state_id)
        if not found:
            return None
        state = cls(**found.execution_state)
        for key, artifact_id in found.artifact_refs.items():
            state.storage.artifacts[key] = artifact_backend.load_artifact(artifact_id)
        return state
