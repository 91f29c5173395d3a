"""Tasks of a session, the context each was spawned with, and the updates it streams."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from foldlog.models._clock import utc_now


class TaskStatus(StrEnum):
    """Where a task stands. COMPLETE, FAILED and CANCELLED are final."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class TaskType(StrEnum):
    """FOREGROUND is interactive and holds its session; BACKGROUND runs beside it."""

    FOREGROUND = "FOREGROUND"
    BACKGROUND = "BACKGROUND"


class UpdateType(StrEnum):
    """What a `StateUpdate` tells: reasoning, a step, a tool call, an answer, an error ..."""

    THINKING = "THINKING"
    PROGRESS = "PROGRESS"
    TOOL_CALL = "TOOL_CALL"
    RESULT = "RESULT"
    ERROR = "ERROR"
    CHECKPOINT = "CHECKPOINT"
    STATUS_CHANGE = "STATUS_CHANGE"
    NOTIFICATION = "NOTIFICATION"


class TaskContextSnapshot(BaseModel):
    """The context a task was given when it was spawned.

    `context_version` and `context_hash` (SHA-256) tell later whether the session's context has
    moved on since. `propagate_on_cancel` is "cascade" or "isolate".
    """

    # Validators are built on first use: importing foldlog stays cheap.
    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)

    session_id: str
    task_id: str
    trace_id: str | None = None
    spawned_from_task_id: str = "foreground"
    spawned_from_event_id: str | None = None
    spawned_at: datetime = Field(default_factory=utc_now)
    spawn_reason: str | None = None
    query: str | None = None
    propagate_on_cancel: str = "cascade"
    notify_on_complete: bool = True
    context_version: int | None = None
    context_hash: str | None = None
    llm_context: dict[str, Any] = Field(default_factory=dict)
    tool_context: dict[str, Any] = Field(default_factory=dict)
    memory: dict[str, Any] = Field(default_factory=dict)
    artifacts: list[dict[str, Any]] = Field(default_factory=list)


class StateUpdate(BaseModel):
    """A progress or status update of a task. Append-only; `update_id` is its idempotency key."""

    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)

    session_id: str
    task_id: str
    trace_id: str | None = None
    update_id: str
    update_type: UpdateType
    content: Any
    step_index: int | None = None
    total_steps: int | None = None
    created_at: datetime = Field(default_factory=utc_now)


@dataclass(slots=True)
class TaskState:
    """The whole state of a task; saving it again replaces what was saved. Higher `priority` is
    more urgent.
    """

    task_id: str
    session_id: str
    status: TaskStatus
    task_type: TaskType
    priority: int
    context_snapshot: TaskContextSnapshot
    trace_id: str | None = None
    result: Any | None = None
    error: str | None = None
    description: str | None = None
    progress: dict[str, Any] | None = None
    created_at: datetime = field(default_factory=utc_now)
    updated_at: datetime = field(default_factory=utc_now)

    def update_status(self, status: TaskStatus) -> None:
        """Move to `status` and set `updated_at` to now. Nothing is saved by this."""
        self.status = status
        self.updated_at = utc_now()
