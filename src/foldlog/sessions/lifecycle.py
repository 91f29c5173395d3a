"""The life of tasks: how each step of it is decided on. Pure."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from foldlog.models import StateUpdate, TaskState, TaskStatus, TaskType
from foldlog.sessions import groups, records
from foldlog.sessions.errors import IllegalTransition
from foldlog.sessions.standing import Entry, Standing, Task, brief_of, telemetry_of
from foldlog.sessions.status import FINAL, check_transition
from foldlog.sessions.telemetry import EventType, Outcome
from foldlog.store.payloads import drafting, encode
from foldlog.store.tasks import TASKS
from foldlog_projections import tasks as saved_tasks


class _End(NamedTuple):
    """How a final status is told."""

    severity: str
    title: str
    event_type: EventType
    outcome: Outcome


_ENDS: Final = {
    TaskStatus.COMPLETE: _End("info", "Task complete", "task_completed", "completed"),
    TaskStatus.FAILED: _End("error", "Task failed", "task_failed", "failed"),
    TaskStatus.CANCELLED: _End("warning", "Task cancelled", "task_cancelled", "cancelled"),
}


@drafting("task")
def spawned(standing: Standing, task: TaskState, group_id: str | None) -> Entry:
    """A new task, which waits to be started; nothing, if there is one of that id.

    Raises:
        IllegalTransition: its parent was cancelled, and it would have been, too.
        UnknownGroup, GroupSealed: it cannot join the group.
        PayloadError: a part of it cannot be held.
    """
    if task.task_id in standing.saved:
        return Entry()
    snapshot = task.context_snapshot
    parent_id = snapshot.spawned_from_task_id
    if snapshot.propagate_on_cancel != "isolate" and parent_id in standing.saved:
        parent = standing.task(parent_id)
        if parent.status is TaskStatus.CANCELLED:
            raise IllegalTransition(parent.task_id, parent.status, f"spawning {task.task_id!r:.80}")
    entry = Entry(tasks=[encode(saved_tasks.kind, TASKS.record(task))])
    if group_id is not None:
        entry.session.append(groups.joined(standing.state, group_id, task.task_id))
    brief = brief_of(entry.tasks[0].payload)
    entry.updates.append(
        records.status_changed(standing.session_id, brief, task.status, snapshot.spawn_reason)
    )
    entry.telemetry.append(telemetry_of("task_spawned", "spawned", standing.session_id, brief))
    return entry


def moved(
    standing: Standing,
    task_id: str,
    status: TaskStatus,
    *,
    reason: str | None = None,
    **fields: Any,
) -> Entry:
    """A task goes to another status; `fields` are what it says of itself from then on.

    Raises:
        UnknownTask: there is none of that id. IllegalTransition: it cannot go there.
        PayloadError: a field cannot be held.
    """
    entry = _moved(standing, task_id, status, reason, **fields)
    if status in FINAL:
        entry.add(groups.tasks_ended(standing, {task_id: status}))
    return entry


def cancelled(standing: Standing, task_id: str, reason: str) -> tuple[Entry, list[str]]:
    """A task is cancelled, and with it all that was spawned from it unless it is isolated.

    Returns what is to be appended, and the tasks that it cancels, the one that was named first.

    Raises:
        UnknownTask: there is none of that id. IllegalTransition: it has ended.
    """
    entry = _moved(standing, task_id, TaskStatus.CANCELLED, reason)
    below = [
        each for each in _descendants(standing, task_id) if standing.task(each).status not in FINAL
    ]
    for each in below:
        entry.add(_moved(standing, each, TaskStatus.CANCELLED, f"{reason}; with {task_id}"))
    every = [task_id, *below]
    entry.add(groups.tasks_ended(standing, dict.fromkeys(every, TaskStatus.CANCELLED)))
    return entry, every


def prioritised(standing: Standing, task_id: str, priority: int) -> Entry:
    """A task becomes more urgent, or less.

    Raises:
        UnknownTask: there is none of that id. IllegalTransition: it has ended.
    """
    task = checked_unended(standing, task_id, "another priority")
    now = msgspec.structs.replace(task, priority=priority)
    return Entry(
        tasks=[records.task_changed(task_id, priority=priority)],
        updates=[records.status_changed(standing.session_id, now, task.status, "priority_changed")],
    )


def progressed(standing: Standing, update: StateUpdate, progress: dict[str, Any] | None) -> Entry:
    """A running task reports; `progress` is what it says of itself from then on, if that changes.

    Raises:
        UnknownTask: there is none of that id. IllegalTransition: it does not run.
        PayloadError: a part cannot be held.
    """
    task = standing.task(update.task_id)
    if task.status not in (TaskStatus.RUNNING, TaskStatus.PAUSED):
        raise IllegalTransition(task.task_id, task.status, "progress")
    entry = Entry(updates=[update])
    if progress is not None:
        entry.tasks.append(records.task_changed(task.task_id, progress=progress))
    return entry


def most_urgent(standing: Standing) -> str | None:
    """The task that is to be started next: of the highest priority, the one spawned first."""
    waiting = [task for task in standing.tasks() if task.status is TaskStatus.PENDING]
    return max(waiting, key=lambda task: task.priority).task_id if waiting else None


def foreground(standing: Standing) -> str | None:
    """The task that holds the session: the first foreground task that runs."""
    for task in standing.tasks():
        if task.task_type is TaskType.FOREGROUND and task.status is TaskStatus.RUNNING:
            return task.task_id
    return None


def checked_unended(standing: Standing, task_id: str, wanted: str) -> Task:
    """Return a task.

    Raises:
        UnknownTask: there is none of that id. IllegalTransition: it has ended; `wanted` says what
            for.
    """
    task = standing.task(task_id)
    if task.status in FINAL:
        raise IllegalTransition(task_id, task.status, wanted)
    return task


def _moved(
    standing: Standing, task_id: str, status: TaskStatus, reason: str | None, **fields: Any
) -> Entry:
    """The same, but for what it means for the task's group."""
    task = standing.task(task_id)
    check_transition(task_id, task.status, status)
    fields = {name: value for name, value in fields.items() if value is not None}
    entry = Entry(
        tasks=[records.task_changed(task_id, status=status.value, **fields)],
        updates=[records.status_changed(standing.session_id, task, status, reason)],
    )
    if status in FINAL:
        _end(entry, standing, task, status, reason=reason, error=fields.get("error"))
    return entry


def _end(
    entry: Entry,
    standing: Standing,
    task: Task,
    status: TaskStatus,
    *,
    reason: str | None,
    error: str | None,
) -> None:
    """What else happens when a task comes to its end."""
    end = _ENDS[status]
    if task.context_snapshot.notify_on_complete and task.task_type is TaskType.BACKGROUND:
        body = error or task.description or task.task_id
        entry.updates.append(
            records.notification(standing.session_id, task.task_id, end.severity, end.title, body)
        )
    lasted = datetime.now(UTC) - datetime.fromisoformat(task.created_at)
    extra = {name: text for name, text in (("reason", reason), ("error", error)) if text}
    entry.telemetry.append(
        telemetry_of(
            end.event_type,
            end.outcome,
            standing.session_id,
            task,
            status=status,
            duration_ms=lasted.total_seconds() * 1000,
            extra=extra,
        )
    )


def _descendants(standing: Standing, task_id: str) -> list[str]:
    """The tasks that are cancelled with this one, in the order in which they are come to."""
    children: dict[str, list[str]] = defaultdict(list)
    for task in standing.tasks():
        if task.context_snapshot.propagate_on_cancel != "isolate":
            children[task.parent_id].append(task.task_id)
    found: dict[str, None] = {}
    ahead = [task_id]
    while ahead:
        for child in children[ahead.pop()]:
            if child not in found and child != task_id:  # whoever saves tasks may draw a circle
                found[child] = None
                ahead.append(child)
    return list(found)
