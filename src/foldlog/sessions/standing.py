"""What a decision is made on, and what it comes to. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from foldlog.envelope import Draft, Recorded
from foldlog.models import StateUpdate, SteeringEvent, TaskStatus, TaskType
from foldlog.sessions.errors import UnknownTask
from foldlog.sessions.telemetry import EventType, Outcome, TaskTelemetryEvent
from foldlog_projections.session import State


class _Spawned(msgspec.Struct, frozen=True, gc=False):
    spawned_from_task_id: str = "foreground"
    spawn_reason: str | None = None
    propagate_on_cancel: str = "cascade"
    notify_on_complete: bool = True


class Task(msgspec.Struct, frozen=True, gc=False):
    """A task as far as decisions look: nothing of what it carries is decoded. Times ISO 8601."""

    task_id: str
    status: TaskStatus
    task_type: TaskType
    priority: int
    created_at: str
    context_snapshot: _Spawned
    trace_id: str | None = None
    description: str | None = None

    @property
    def parent_id(self) -> str:
        """The task that it was spawned from; "foreground" where none was named."""
        return self.context_snapshot.spawned_from_task_id


brief_of: Final = msgspec.msgpack.Decoder(Task).decode
"""What decisions look at of a task, from the payload of a save of all of it."""


class Standing(NamedTuple):
    """A session as it stands. It is looked at before the next await, and never changed."""

    session_id: str
    saved: Mapping[str, Recorded]
    state: State

    def task(self, task_id: str) -> Task:
        """Return a task.

        Raises:
            UnknownTask: there is none of that id.
        """
        item = self.saved.get(task_id)
        if item is None:
            raise UnknownTask(task_id)
        return brief_of(item.payload)

    def tasks(self) -> Iterator[Task]:
        """Every task, in the order in which they were spawned."""
        return (brief_of(item.payload) for item in self.saved.values())


@dataclass(slots=True)
class Entry:
    """What is to be appended, all of it or nothing, and told afterwards.

    `tasks` and `session` are appended only where their subjects still end as they did when the
    decision was made.
    """

    tasks: list[Draft] = field(default_factory=list)
    session: list[Draft] = field(default_factory=list)
    updates: list[StateUpdate] = field(default_factory=list)
    steering: list[SteeringEvent] = field(default_factory=list)
    telemetry: list[TaskTelemetryEvent] = field(default_factory=list)

    def add(self, other: Entry) -> None:
        """Have all that another one has, too."""
        self.tasks += other.tasks
        self.session += other.session
        self.updates += other.updates
        self.steering += other.steering
        self.telemetry += other.telemetry

    @property
    def ids(self) -> list[str]:
        """The envelope ids of all of it."""
        return [
            *(draft.id for draft in (*self.tasks, *self.session)),
            *(update.update_id for update in self.updates),
            *(event.event_id for event in self.steering),
        ]


def telemetry_of(
    event_type: EventType, outcome: Outcome, session_id: str, task: Task, **fields: Any
) -> TaskTelemetryEvent:
    """The event of a task, as it stands unless `fields` say otherwise."""
    is_foreground = task.task_type is TaskType.FOREGROUND
    values: dict[str, Any] = {
        "event_type": event_type,
        "outcome": outcome,
        "session_id": session_id,
        "task_id": task.task_id,
        "parent_task_id": task.parent_id,
        "trace_id": task.trace_id,
        "task_type": task.task_type,
        "status": task.status,
        "mode": "foreground" if is_foreground else "subagent",
        "spawn_reason": task.context_snapshot.spawn_reason,
    }
    return TaskTelemetryEvent(**(values | fields))
