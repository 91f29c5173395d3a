"""The life of tasks: how each step of it is decided. Pure.

    PENDING ──► RUNNING ◄──► PAUSED
       │           │            │
       │           ├──► COMPLETE│
       └───────────┴────────────┴──► FAILED, CANCELLED

Every function adds to a decision, and raises UnknownTask where there is no such task,
IllegalTransition where the task cannot do that, and PayloadError where a part cannot be held.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from foldlog.models import StateUpdate, TaskState, TaskStatus, TaskType
from foldlog.sessions import groups
from foldlog.sessions.decision import Decision, now
from foldlog.sessions.errors import IllegalTransition
from foldlog.sessions.state import SessionState, TaskBrief, brief_of
from foldlog.sessions.telemetry import EventType, Outcome
from foldlog.store.payloads import drafting, encode
from foldlog.store.tasks import TASKS, waits_as
from foldlog.store.waiting import began, ended
from foldlog_projections import tasks

_ENDS: Final = frozenset({TaskStatus.FAILED, TaskStatus.CANCELLED})

FINAL: Final = _ENDS | {TaskStatus.COMPLETE}
"""From here a task goes nowhere."""

NEXT: Final[Mapping[TaskStatus, frozenset[TaskStatus]]] = {
    TaskStatus.PENDING: _ENDS | {TaskStatus.RUNNING},
    TaskStatus.RUNNING: _ENDS | {TaskStatus.PAUSED, TaskStatus.COMPLETE},
    TaskStatus.PAUSED: _ENDS | {TaskStatus.RUNNING},
    TaskStatus.COMPLETE: frozenset(),
    TaskStatus.FAILED: frozenset(),
    TaskStatus.CANCELLED: frozenset(),
}


class _End(NamedTuple):
    """How a final status is told."""

    severity: str
    title: str
    event_type: EventType
    outcome: Outcome


_TOLD: Final = {
    TaskStatus.COMPLETE: _End("info", "Task complete", "task_completed", "completed"),
    TaskStatus.FAILED: _End("error", "Task failed", "task_failed", "failed"),
    TaskStatus.CANCELLED: _End("warning", "Task cancelled", "task_cancelled", "cancelled"),
}


@drafting("task")
def spawn(made: Decision, task: TaskState, mode: str | None, group_id: str | None) -> None:
    """Add a new task, which waits to be started; nothing if there is one of that id.

    Raises:
        IllegalTransition: its parent was cancelled, and would have taken it along.
        UnknownGroup, GroupSealed: it cannot join the group.
    """
    if task.task_id in made.state.saved:
        return
    snapshot = task.context_snapshot
    parent_id = snapshot.spawned_from_task_id
    if snapshot.propagate_on_cancel != "isolate" and parent_id in made.state.saved:
        parent = made.state.brief(parent_id)
        if parent.status is TaskStatus.CANCELLED:
            raise IllegalTransition(parent.task_id, parent.status, f"spawning {task.task_id!r:.80}")
    draft = encode(tasks.kind, msgspec.structs.replace(TASKS.record(task), mode=mode))
    made.add(tasks.kind, draft)
    if group_id is not None:
        groups.join(made, group_id, task.task_id)
    brief = brief_of(draft.payload)
    made.status_changed(brief, task.status, snapshot.spawn_reason)
    made.emit("task_spawned", "spawned", brief)


def start(made: Decision, task_id: str) -> None:
    """Have a task that waits run."""
    task = made.state.brief(task_id)
    if task.status is not TaskStatus.PENDING:
        raise IllegalTransition(task_id, task.status, TaskStatus.RUNNING)
    move(made, task_id, TaskStatus.RUNNING, reason="started")


def start_next(made: Decision) -> str | None:
    """Have the most urgent of the tasks that wait run: of the highest priority, the oldest."""
    waiting = [task for task in made.state.briefs() if task.status is TaskStatus.PENDING]
    if not waiting:
        return None
    task_id = max(waiting, key=lambda task: task.priority).task_id
    start(made, task_id)
    return task_id


def move(
    made: Decision, task_id: str, status: TaskStatus, *, reason: str | None = None, **fields: Any
) -> None:
    """Take a task to another status, with what `fields` say of it from then on."""
    _move(made, task_id, status, reason, **fields)
    if status in FINAL:
        groups.end_tasks(made, {task_id: status})


def cancel(made: Decision, task_id: str, reason: str) -> list[str]:
    """Cancel a task, and with it all that was spawned from it unless it is isolated.

    Returns the tasks that it cancels, the one that was named first.
    """
    _move(made, task_id, TaskStatus.CANCELLED, reason)
    below = [
        each
        for each in _descendants(made.state, task_id)
        if made.state.brief(each).status not in FINAL
    ]
    for each in below:
        _move(made, each, TaskStatus.CANCELLED, f"{reason}; with {task_id}")
    every = [task_id, *below]
    groups.end_tasks(made, dict.fromkeys(every, TaskStatus.CANCELLED))
    return every


def prioritize(made: Decision, task_id: str, priority: int) -> None:
    """Make a task more urgent, or less."""
    task = check_unended(made, task_id, "another priority")
    made.change_task(task_id, priority=priority)
    now = msgspec.structs.replace(task, priority=priority)
    made.status_changed(now, task.status, "priority_changed")


def report(made: Decision, update: StateUpdate, progress: dict[str, Any] | None) -> None:
    """Add the report of a task that has been started and has not ended.

    `progress` is what it says of itself from then on; None: what it said before.
    """
    task = made.state.brief(update.task_id)
    if task.status not in (TaskStatus.RUNNING, TaskStatus.PAUSED):
        raise IllegalTransition(task.task_id, task.status, "progress")
    made.add_update(update)
    if progress is not None:
        made.change_task(task.task_id, progress=progress)


def check_unended(made: Decision, task_id: str, wanted: str) -> TaskBrief:
    """Return a task that has not ended; `wanted` says what for."""
    task = made.state.brief(task_id)
    if task.status in FINAL:
        raise IllegalTransition(task_id, task.status, wanted)
    return task


def _move(
    made: Decision, task_id: str, status: TaskStatus, reason: str | None, **fields: Any
) -> None:
    """As `move`, but for what it means for the task's group."""
    task = made.state.brief(task_id)
    if status not in NEXT[task.status]:  # staying where it is is no way either
        raise IllegalTransition(task_id, task.status, status)
    fields = {name: value for name, value in fields.items() if value is not None}
    if status is TaskStatus.PAUSED:
        fields["paused_at"] = now()
        ref = waits_as(made.session_id, task_id, fields["paused_at"])
        made.waiting.append(began(ref, made.session_id))
    elif task.status is TaskStatus.PAUSED:
        made.waiting.append(ended(waits_as(made.session_id, task_id, task.paused_at)))
    made.change_task(task_id, status=status.value, **fields)
    made.status_changed(task, status, reason)
    if status in FINAL:
        _tell_end(made, task, status, reason=reason, error=fields.get("error"))


def _tell_end(
    made: Decision, task: TaskBrief, status: TaskStatus, *, reason: str | None, error: str | None
) -> None:
    end = _TOLD[status]
    if task.context_snapshot.notify_on_complete and task.task_type is TaskType.BACKGROUND:
        body = error or task.description or task.task_id
        made.notify(task.task_id, end.severity, end.title, body)
    lasted = datetime.now(UTC) - datetime.fromisoformat(task.created_at)
    made.emit(
        end.event_type,
        end.outcome,
        task,
        status=status,
        duration_ms=lasted.total_seconds() * 1000,
        extra={name: text for name, text in (("reason", reason), ("error", error)) if text},
    )


def _descendants(state: SessionState, task_id: str) -> list[str]:
    """The tasks that are cancelled with this one, parents before children."""
    children: dict[str, list[str]] = defaultdict(list)
    for task in state.briefs():
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
