"""Tasks of a session, the context each was spawned with, and the updates it streams."""

from __future__ import annotations

import uuid
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
    """The context that a task was given when it was spawned.

    Attributes:
        session_id, task_id, trace_id: the task, and its trace if it has one.
        spawned_from_task_id: the task that spawned it.
        spawned_from_event_id: the event that made it do so.
        spawned_at: when.
        spawn_reason: why, in words.
        query: what it is to do.
        propagate_on_cancel: "cascade" or "isolate": whether cancelling the parent cancels it.
        notify_on_complete: whether a NOTIFICATION update tells of a background task's end.
        context_version, context_hash: version and SHA-256 of the session's context, which tell
            later whether it has changed since.
        llm_context, tool_context, memory, artifacts: the context itself.
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
    """A progress or status update of a task. Updates are only appended.

    Attributes:
        session_id, task_id, trace_id: the task, and its trace if it has one.
        update_id: the idempotency key: saving the same again has no effect. Not given: a fresh one,
            so that a step that is done again reports again.
        update_type: what `content` is.
        content: any value that the log can hold.
        step_index: which step it is, counted from 0.
        total_steps: how many steps there are.
        created_at: when it was made.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)

    session_id: str
    task_id: str
    trace_id: str | None = None
    update_id: str = Field(default_factory=lambda: uuid.uuid4().hex)
    update_type: UpdateType
    content: Any
    step_index: int | None = None
    total_steps: int | None = None
    created_at: datetime = Field(default_factory=utc_now)


@dataclass(slots=True)
class TaskState:
    """The whole state of a task. Saving it again replaces what was saved.

    Attributes:
        task_id, session_id, trace_id: the task, its session, and its trace if it has one.
        status: where it stands.
        task_type: FOREGROUND or BACKGROUND.
        priority: higher is more urgent.
        context_snapshot: the context that it was given.
        result: what came of it, when it is COMPLETE.
        error: why it is FAILED.
        description: what it is, for a reader.
        progress: how far it is.
        created_at, updated_at: when it was made, and changed last.
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
        """Set `status` and set `updated_at` to now. Nothing is saved.

        Args:
            status: the new status.
        """
        self.status = status
        self.updated_at = utc_now()
