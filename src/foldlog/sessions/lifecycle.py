"""The life of tasks: how each step of it is decided. Pure.

    PENDING ──► RUNNING ◄──► PAUSED
       │           │            │
       │           ├──► COMPLETE│
       └───────────┴────────────┴──► FAILED, CANCELLED

Every function adds to a decision. Each raises NotFound for an unknown task, IllegalTransition
for a task that cannot do that, and PayloadError for what cannot be held.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from foldlog.models import TaskState, TaskStatus, TaskType
from foldlog.sessions import groups
from foldlog.sessions.decision import Decision, now
from foldlog.sessions.errors import IllegalTransition
from foldlog.sessions.state import SessionState, TaskBrief, brief_of
from foldlog.sessions.telemetry import EventType, Outcome
from foldlog.store.payloads import drafting, encode
from foldlog.store.tasks import TASKS, check_context, waits_as
from foldlog.store.waiting import began, ended
from foldlog_projections import tasks
from foldlog_projections.tasks import TaskSaved
from foldlog_projections.updates import UpdateSaved

_ENDS: Final = frozenset({TaskStatus.FAILED, TaskStatus.CANCELLED})

FINAL: Final = _ENDS | {TaskStatus.COMPLETE}
"""A task with one of these has ended."""

NEXT: Final[Mapping[TaskStatus, frozenset[TaskStatus]]] = {
    TaskStatus.PENDING: _ENDS | {TaskStatus.RUNNING},
    TaskStatus.RUNNING: _ENDS | {TaskStatus.PAUSED, TaskStatus.COMPLETE},
    TaskStatus.PAUSED: _ENDS | {TaskStatus.RUNNING},
    TaskStatus.COMPLETE: frozenset(),
    TaskStatus.FAILED: frozenset(),
    TaskStatus.CANCELLED: frozenset(),
}


class _End(NamedTuple):
    """The words for a final status, in notifications and in telemetry."""

    severity: str
    title: str
    event_type: EventType
    outcome: Outcome


_WORDS: Final = {
    TaskStatus.COMPLETE: _End("info", "Task complete", "task_completed", "completed"),
    TaskStatus.FAILED: _End("error", "Task failed", "task_failed", "failed"),
    TaskStatus.CANCELLED: _End("warning", "Task cancelled", "task_cancelled", "cancelled"),
}

Redact = Callable[[TaskSaved], TaskSaved]


@drafting("task")
def spawn(
    made: Decision, task: TaskState, mode: str | None, group_id: str | None, redact: Redact
) -> None:
    """Add a new task with a snapshot of the context; nothing if there is one of that id.

    Raises:
        IllegalTransition: its parent was cancelled, and the task would be cancelled with it.
        NotFound, GroupSealed: it cannot join the group.
    """
    if task.task_id in made.state.saved:
        return
    known, given = made.state.context, task.context_snapshot
    parent_id = given.spawned_from_task_id or made.state.foreground_task_id or "foreground"
    snapshot = {
        **dict(given),
        "spawned_from_task_id": parent_id,
        "context_version": known.version,
        "context_hash": known.context_hash,
        "llm_context": known.llm_context,
        "tool_context": known.tool_context,
        "memory": known.memory,
        "artifacts": known.artifacts,
    }
    record = msgspec.structs.replace(TASKS.record(task), context_snapshot=snapshot, mode=mode)
    record = redact(record)
    check_context("Session.spawn_task", record.context_snapshot, given)
    draft = encode(tasks.kind, record)
    brief = brief_of(draft.payload)
    if (
        brief.context_snapshot.propagate_on_cancel != "isolate"
        and brief.parent_id in made.state.saved
    ):
        parent = made.state.brief(brief.parent_id)
        if parent.status is TaskStatus.CANCELLED:
            raise IllegalTransition(parent.task_id, parent.status, f"spawning {task.task_id!r:.80}")
    made.add(tasks.kind, draft)
    if group_id is not None:
        groups.join(made, group_id, task.task_id)
    made.status_changed(brief, task.status, brief.context_snapshot.spawn_reason)
    made.emit("task_spawned", "spawned", brief)


def start(made: Decision, task_id: str) -> None:
    """Start a task that waits."""
    task = made.state.brief(task_id)
    if task.status is not TaskStatus.PENDING:
        raise IllegalTransition(task_id, task.status, TaskStatus.RUNNING)
    move(made, task_id, TaskStatus.RUNNING, reason="started")


def start_next(made: Decision) -> str | None:
    """Start the most urgent task that waits: of the highest priority, the oldest."""
    waiting = [task for task in made.state.briefs() if task.status is TaskStatus.PENDING]
    if not waiting:
        return None
    task_id = max(waiting, key=lambda task: task.priority).task_id
    start(made, task_id)
    return task_id


def move(
    made: Decision, task_id: str, status: TaskStatus, *, reason: str | None = None, **fields: Any
) -> None:
    """Take a task to another status, and give it these fields where they are not None."""
    _move(made, task_id, status, reason, **fields)
    if status in FINAL:
        groups.end_tasks(made, {task_id: status})


def end(
    made: Decision, task_id: str, status: TaskStatus, *, error: str | None, result: Any
) -> None:
    """End a task whose code has ended: also where it was paused too late, or has ended before."""
    task = made.state.brief(task_id)
    if task.status in FINAL:
        return
    paused = TaskStatus.PAUSED
    _move(made, task_id, status, None, also_from=paused, error=error, result=result)
    groups.end_tasks(made, {task_id: status})


def cancel(made: Decision, task_id: str, reason: str) -> list[str]:
    """Cancel a task and all that was spawned from it unless isolated; return them, it first."""
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
    """Give a task another priority."""
    task = check_unended(made, task_id, "another priority")
    made.change_task(task_id, priority=priority)
    made.status_changed(
        msgspec.structs.replace(task, priority=priority), task.status, "priority_changed"
    )


def report(made: Decision, update: UpdateSaved, progress: dict[str, Any] | None) -> None:
    """Add the report of a task that runs or is paused; `progress` None: as it was."""
    task = made.state.brief(update.task_id)
    if task.status not in (TaskStatus.RUNNING, TaskStatus.PAUSED):
        raise IllegalTransition(task.task_id, task.status, "progress")
    made.add_update(update)
    if progress is not None:
        made.change_task(task.task_id, progress=progress)


def reopen(made: Decision, task_id: str) -> None:
    """Have a task run again that has ended, or waited: a run that is opened again goes on."""
    task = made.state.brief(task_id)
    if task.status is TaskStatus.PAUSED:
        made.waiting.append(ended(waits_as(made.session_id, task_id, task.paused_at)))
    made.change_task(task_id, status=TaskStatus.RUNNING.value, error=None)
    made.moved[task_id] = TaskStatus.RUNNING
    made.status_changed(task, TaskStatus.RUNNING, "opened")


def park(made: Decision, task_id: str, reason: str) -> None:
    """Pause a task that waits for an answer, which is listed; the task itself is not."""
    task = made.state.brief(task_id)
    made.change_task(task_id, status=TaskStatus.PAUSED.value, paused_at=now())
    made.moved[task_id] = TaskStatus.PAUSED
    made.status_changed(task, TaskStatus.PAUSED, reason)


def check_unended(made: Decision, task_id: str, wanted: str) -> TaskBrief:
    """Return a task that has not ended; `wanted` is named in the IllegalTransition of others."""
    task = made.state.brief(task_id)
    if task.status in FINAL:
        raise IllegalTransition(task_id, task.status, wanted)
    return task


def _move(
    made: Decision,
    task_id: str,
    status: TaskStatus,
    reason: str | None,
    *,
    also_from: TaskStatus | None = None,
    **fields: Any,
) -> None:
    """As `move`, without the task's group."""
    task = made.state.brief(task_id)
    # No status leads to itself.
    if status not in NEXT[task.status] and task.status is not also_from:
        raise IllegalTransition(task_id, task.status, status)
    fields = {name: value for name, value in fields.items() if value is not None}
    if status is TaskStatus.PAUSED:
        fields["paused_at"] = now()
        ref = waits_as(made.session_id, task_id, fields["paused_at"])
        made.waiting.append(began(ref, made.session_id))
    elif task.status is TaskStatus.PAUSED:
        made.waiting.append(ended(waits_as(made.session_id, task_id, task.paused_at)))
    made.change_task(task_id, status=status.value, **fields)
    made.moved[task_id] = status
    made.status_changed(task, status, reason)
    if status in FINAL:
        _announce_end(made, task, status, reason=reason, error=fields.get("error"))


def _announce_end(
    made: Decision, task: TaskBrief, status: TaskStatus, *, reason: str | None, error: str | None
) -> None:
    words = _WORDS[status]
    if task.context_snapshot.notify_on_complete and task.task_type is TaskType.BACKGROUND:
        body = error or task.description or task.task_id
        made.notify(task.task_id, words.severity, words.title, body)
    lasted = datetime.now(UTC) - datetime.fromisoformat(task.created_at)
    made.emit(
        words.event_type,
        words.outcome,
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
            if child not in found and child != task_id:  # saved tasks may form a cycle
                found[child] = None
                ahead.append(child)
    return list(found)
