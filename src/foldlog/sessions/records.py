"""The envelopes and updates by which a session tells what has happened. No I/O."""

from __future__ import annotations

import secrets
import uuid
from datetime import UTC, datetime
from typing import Any

import msgspec

from foldlog import codec
from foldlog.envelope import Draft, draft
from foldlog.models import StateUpdate, TaskStatus, UpdateType
from foldlog.sessions.standing import Task
from foldlog.store.payloads import dump
from foldlog_projections import tasks
from foldlog_projections.tasks import Changed


def drafted(type: str, payload: msgspec.Struct, *held: str) -> Draft:
    """Return the envelope of a payload; `held` as `foldlog.store.payloads.dump`."""
    # Not an upsert's id: a session that was cleared would refuse what it once decided. No late
    # writer needs to be recognised, since each decision is compared-and-set.
    return draft(type, dump(payload, *held), id=secrets.token_hex(12))


def task_changed(task_id: str, **fields: Any) -> Draft:
    """These fields of a task are this now.

    Raises:
        PayloadError: a result or a progress cannot be held.
    """
    held = [name for name in ("result", "progress") if name in fields]
    return drafted(tasks.CHANGED, Changed(task_id, now(), **fields), *held)


def status_changed(
    session_id: str, task: Task, status: TaskStatus, reason: str | None
) -> StateUpdate:
    """The update that tells of a task's new status."""
    content = {
        "status": status.value,
        "previous": task.status.value if task.status is not status else None,
        "reason": reason,
        "priority": task.priority,
        "task_type": task.task_type.value,
    }
    return update(session_id, task.task_id, UpdateType.STATUS_CHANGE, content, task.trace_id)


def notification(
    session_id: str, task_id: str, severity: str, title: str, body: str, **more: Any
) -> StateUpdate:
    """A line for the user; `severity` is "info", "warning" or "error"."""
    content = {"severity": severity, "title": title, "body": body, "task_id": task_id, **more}
    return update(session_id, task_id, UpdateType.NOTIFICATION, content)


def update(
    session_id: str, task_id: str, type: UpdateType, content: Any, trace_id: str | None = None
) -> StateUpdate:
    """An update with an id of its own."""
    return StateUpdate.model_construct(
        session_id=session_id,
        task_id=task_id,
        trace_id=trace_id,
        update_id=uuid.uuid4().hex,
        update_type=type,
        content=content,
        step_index=None,
        total_steps=None,
        created_at=datetime.now(UTC),
    )


def raw(value: Any, path: str) -> msgspec.Raw:
    """A value of the user's, encoded.

    Raises:
        PayloadError: it cannot be held.
    """
    return msgspec.Raw(codec.encode(value, path))


def now() -> str:
    """The time now as ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat()
