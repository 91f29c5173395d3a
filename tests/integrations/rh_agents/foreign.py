"""An execution as another library has it: its own classes, two backends, and blocking calls.

It has the shape that rh-agents' plan for state recovery gives to `ExecutionState`: what it dumps,
what it leaves out, and which calls it makes of a backend with which arguments. It knows nothing of
foldlog: the backends are whatever has `save_state`, `load_state`, `save_artifact` and
`load_artifact`.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import pickle
import uuid
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field, PrivateAttr


class ForeignStatus(str, Enum):  # noqa: UP042 - as they have it
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"


class ForeignMode(str, Enum):  # noqa: UP042 - as they have it
    NORMAL = "normal"
    VALIDATION = "validation"


class ForeignEventType(str, Enum):  # noqa: UP042 - as they have it
    LLM_CALL = "llm_call"
    TOOL_CALL = "tool_call"


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


class ForeignEvent(BaseModel):
    """What a history holds; `result` is whatever a handler gave."""

    address: str
    event_type: ForeignEventType
    status: str = "started"
    at: dt.datetime = Field(default_factory=dt.datetime.now)
    written: Path = Path("/dev/null")
    result: Any = None
    is_replayed: bool = False


class ForeignHistory(BaseModel):
    events: list[ForeignEvent] = Field(default_factory=list)

    def at(self, address: str) -> ForeignEvent | None:
        return next((event for event in self.events if event.address == address), None)


class ForeignStore(BaseModel):
    data: dict[str, Any] = Field(default_factory=dict)
    artifacts: dict[str, Any] = Field(default_factory=dict, exclude=True)


class ForeignBus:
    """Cannot be saved, and is not."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def publish(self, event: ForeignEvent) -> None:
        self.told.append(event.address)


class ForeignState(BaseModel, arbitrary_types_allowed=True):
    """What is saved as a whole, again and again."""

    state_id: str = Field(default_factory=lambda: str(uuid.uuid4()))
    replay_mode: ForeignMode = ForeignMode.NORMAL
    resume_from_address: str | None = None
    storage: ForeignStore = Field(default_factory=ForeignStore)
    history: ForeignHistory = Field(default_factory=ForeignHistory)
    execution_stack: list[str] = Field(default_factory=list)
    auto_checkpoint: bool = False
    event_bus: ForeignBus = Field(default_factory=ForeignBus, exclude=True)
    _state_backend: Any = PrivateAttr(default=None)
    _artifact_backend: Any = PrivateAttr(default=None)

    def use(self, state_backend: Any, artifact_backend: Any = None) -> Self:
        self._state_backend, self._artifact_backend = state_backend, artifact_backend
        return self

    def run(self, address: str, event_type: ForeignEventType, handler: Callable[[], Any]) -> Any:
        """One step: the result on record, or the handler's."""
        known = self.history.at(address)
        if known is not None and self._skips(address):
            known.is_replayed = True
            return known.result
        event = ForeignEvent(address=address, event_type=event_type)
        event.result, event.status = handler(), "completed"
        self.history.events = [e for e in self.history.events if e.address != address] + [event]
        self.event_bus.publish(event)
        if self.auto_checkpoint:
            self.save_checkpoint(ForeignStatus.RUNNING)
        return event.result

    def to_snapshot(
        self,
        status: ForeignStatus = ForeignStatus.RUNNING,
        metadata: ForeignMetadata | None = None,
    ) -> ForeignSnapshot:
        refs = {}
        for key, artifact in self.storage.artifacts.items():
            refs[key] = hashlib.sha256(pickle.dumps(artifact)).hexdigest()
            if self._artifact_backend:
                self._artifact_backend.save_artifact(refs[key], artifact)
        now = dt.datetime.now().isoformat()
        return ForeignSnapshot(
            state_id=self.state_id,
            created_at=now,
            updated_at=now,
            status=status,
            metadata=metadata or ForeignMetadata(),
            execution_state=self.model_dump(exclude={"event_bus"}),
            artifact_refs=refs,
        )

    @classmethod
    def from_snapshot(
        cls,
        snapshot: Any,
        state_backend: Any = None,
        artifact_backend: Any = None,
        replay_mode: ForeignMode = ForeignMode.NORMAL,
        resume_from_address: str | None = None,
    ) -> Self:
        state = cls(**snapshot.execution_state)
        if artifact_backend:
            for key, artifact_id in snapshot.artifact_refs.items():
                artifact = artifact_backend.load_artifact(artifact_id)
                if artifact:
                    state.storage.artifacts[key] = artifact
        state.replay_mode, state.resume_from_address = replay_mode, resume_from_address
        return state.use(state_backend, artifact_backend)

    def save_checkpoint(
        self,
        status: ForeignStatus = ForeignStatus.RUNNING,
        metadata: ForeignMetadata | None = None,
    ) -> bool:
        if not self._state_backend:
            return False
        saved: bool = self._state_backend.save_state(self.to_snapshot(status, metadata))
        return saved

    @classmethod
    def load_from_state_id(
        cls,
        state_id: str,
        state_backend: Any,
        artifact_backend: Any = None,
        replay_mode: ForeignMode = ForeignMode.NORMAL,
        resume_from_address: str | None = None,
    ) -> Self | None:
        snapshot = state_backend.load_state(state_id)
        if not snapshot:
            return None
        return cls.from_snapshot(
            snapshot, state_backend, artifact_backend, replay_mode, resume_from_address
        )

    def _skips(self, address: str) -> bool:
        if self.replay_mode is ForeignMode.VALIDATION:
            return False
        if address == self.resume_from_address:
            self.resume_from_address = None
            self.history.events = self.history.events[: self._index(address) + 1]
            return False
        return True

    def _index(self, address: str) -> int:
        return [event.address for event in self.history.events].index(address)
