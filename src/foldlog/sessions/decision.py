"""What a session's writer decides: the records of one append, and its telemetry. No I/O."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from foldlog.envelope import Draft, draft
from foldlog.kind import Kind
from foldlog.models import SteeringEvent, TaskStatus, TaskType, UpdateType
from foldlog.sessions.state import SessionState, TaskBrief
from foldlog.sessions.telemetry import EventType, Outcome, TaskTelemetryEvent
from foldlog.store.payloads import dump, encode
from foldlog.store.steering import STEERING, draft_steering
from foldlog.subjects import checked_id
from foldlog_projections import steering, tasks, updates
from foldlog_projections.sessions import session
from foldlog_projections.tasks import Changed
from foldlog_projections.updates import UpdateSaved


@dataclass(slots=True)
class Decision:
    """A decision on `state`: functions add to it what is appended, all of it or nothing.

    `waiting` has the records that add to the list of what waits for a person, or take from it.
    `moved` are the tasks whose status is another one now.
    """

    state: SessionState
    drafts: dict[Kind[Any], list[Draft]] = field(default_factory=dict)
    waiting: list[Draft] = field(default_factory=list)
    telemetry: list[TaskTelemetryEvent] = field(default_factory=list)
    moved: dict[str, TaskStatus] = field(default_factory=dict[str, TaskStatus])

    @property
    def session_id(self) -> str:
        """The session that is decided on."""
        return self.state.session_id

    def add(self, kind: Kind[Any], made: Draft) -> None:
        """Append a draft to a view of the session."""
        self.drafts.setdefault(kind, []).append(made)

    def record(self, record: msgspec.Struct) -> None:
        """Append a record to the session's own view."""
        self.add(session.kind, _drafted(session.kind, record))

    def change_task(self, task_id: str, **fields: Any) -> None:
        """Give fields of a task these values. Raises PayloadError for what cannot be held."""
        held = [name for name in ("result", "progress") if name in fields]
        self.add(tasks.kind, _drafted(tasks.kind, Changed(task_id, now(), **fields), *held))

    def steer(self, event: SteeringEvent) -> None:
        """Put a steering event on record. Errors as `Store.save_steering`, of a strict store."""
        self.add(steering.kind, draft_steering(STEERING.record(event), strict=True))

    def add_update(self, update: UpdateSaved) -> None:
        """Append an update. Raises PayloadError or InvalidId for what cannot be held."""
        self.add(updates.kind, encode(updates.kind, update))

    def update(
        self, task_id: str, type: UpdateType, content: Any, trace_id: str | None = None
    ) -> None:
        """Append an update with an id of its own."""
        task_id, id = checked_id(task_id, "task_id"), uuid.uuid4().hex
        self.add_update(
            UpdateSaved(self.session_id, task_id, id, type.value, content, now(), trace_id=trace_id)
        )

    def status_changed(self, task: TaskBrief, status: TaskStatus, reason: str | None) -> None:
        """Append the update of a task's new status."""
        content = {
            "status": status.value,
            "previous": task.status.value if task.status is not status else None,
            "reason": reason,
            "priority": task.priority,
            "task_type": task.task_type.value,
        }
        self.update(task.task_id, UpdateType.STATUS_CHANGE, content, task.trace_id)

    def status(self, task_id: str) -> TaskStatus:
        """Return where a task stands with this decision. NotFound: there is none of that id."""
        return self.moved.get(task_id) or self.state.brief(task_id).status

    def notify(self, task_id: str, severity: str, title: str, body: str, **more: Any) -> None:
        """Append a line for the user; `severity` is "info", "warning" or "error"."""
        content = {"severity": severity, "title": title, "body": body, "task_id": task_id, **more}
        self.update(task_id, UpdateType.NOTIFICATION, content)

    def emit(self, type: EventType, outcome: Outcome, task: TaskBrief, **fields: Any) -> None:
        """Emit the telemetry of a task as it stands, unless `fields` say otherwise."""
        is_foreground = task.task_type is TaskType.FOREGROUND
        values: dict[str, Any] = {
            "event_type": type,
            "outcome": outcome,
            "session_id": self.session_id,
            "task_id": task.task_id,
            "parent_task_id": task.parent_id,
            "trace_id": task.trace_id,
            "task_type": task.task_type,
            "status": task.status,
            "mode": "foreground" if is_foreground else task.mode or "subagent",
            "spawn_reason": task.context_snapshot.spawn_reason,
        }
        self.telemetry.append(TaskTelemetryEvent(**(values | fields)))


Decide = Callable[[Decision], bool | None]
"""Adds to a decision what the session's state calls for; returns False if nothing is to be decided.

It does no I/O, and may be called several times. The writer raises what it raises.
"""


def now() -> str:
    """The time now as ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat()


def _drafted(kind: Kind[Any], record: msgspec.Struct, *held: str) -> Draft:
    # Not an upsert's id: a session that was cleared would refuse what it once decided. No late
    # writer needs to be recognised, since each decision is compared-and-set.
    return draft(kind.type_of(record), dump(record, *held), id=secrets.token_hex(12))
