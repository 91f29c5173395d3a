"""Groups of tasks: which tasks join, when no more may, and when all of them have ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from foldlog.models import TaskStatus, TaskType, UpdateType
from foldlog.sessions.decision import Decision, now
from foldlog.sessions.errors import GroupSealed
from foldlog.sessions.models import MergeStrategy
from foldlog.sessions.telemetry import TaskTelemetryEvent
from foldlog_projections.sessions.session import (
    Group,
    GroupJoined,
    GroupOpened,
    GroupSealed as Sealed,
    GroupTaskEnded,
    grouped,
)


def create(made: Decision, group_id: str, name: str, strategy: MergeStrategy) -> None:
    """Add a new group; nothing if there is one of that id."""
    if group_id not in made.state.folded.groups:
        made.record(GroupOpened(group_id, name, strategy.value, now()))


def join(made: Decision, group_id: str, task_id: str) -> None:
    """Add a new task to a group. Raises NotFound, GroupSealed."""
    group = made.state.group_record(group_id)
    if group.status != "open":
        raise GroupSealed(group_id, group.status)
    made.record(GroupJoined(group_id, task_id))


def seal(made: Decision, group_id: str) -> None:
    """Let no more tasks join a group; nothing if it is sealed. Raises NotFound."""
    group = made.state.group_record(group_id)
    if group.status == "open":
        sealed = Sealed(group_id, now())
        made.record(sealed)
        _announce_end(made, grouped(group, sealed))


def end_tasks(made: Decision, ended: Mapping[str, TaskStatus]) -> None:
    """Note in their groups that tasks have ended, all in the same moment."""
    after: dict[str, Group] = {}
    for task_id, status in ended.items():
        group = made.state.folded.group_of(task_id)
        if group is not None:
            record = GroupTaskEnded(group.group_id, task_id, status.value, now())
            made.record(record)
            after[group.group_id] = grouped(after.get(group.group_id, group), record)
    for group in after.values():
        _announce_end(made, group)


def _announce_end(made: Decision, group: Group) -> None:
    """Append the update of a group's end, and emit its telemetry, if the group has ended."""
    if not group.is_ended:
        return
    completed = sum(status == TaskStatus.COMPLETE for status in group.ended.values())
    counts = {
        "group_id": group.group_id,
        "group_name": group.name,
        "task_count": len(group.task_ids),
        "completed_count": completed,
        "failed_count": len(group.task_ids) - completed,
    }
    content = {"kind": "group_ended", "status": group.status, **counts}
    made.update(group.group_id, UpdateType.NOTIFICATION, content)
    complete = group.status == "complete"
    made.telemetry.append(
        TaskTelemetryEvent(
            event_type="task_group_completed" if complete else "task_group_failed",
            outcome="completed" if complete else "failed",
            session_id=made.session_id,
            task_id=group.group_id,
            task_type=TaskType.BACKGROUND,
            status=TaskStatus.COMPLETE if complete else TaskStatus.FAILED,
            extra=counts,
        )
    )
