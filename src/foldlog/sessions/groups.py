"""Groups of tasks: which tasks join, when no more may, and when all of them have ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from foldlog.envelope import Draft, Recorded
from foldlog.models import TaskStatus, TaskType, UpdateType
from foldlog.sessions.decision import Decision, now
from foldlog.sessions.errors import GroupSealed
from foldlog.sessions.models import MergeStrategy
from foldlog.sessions.telemetry import TaskTelemetryEvent
from foldlog_projections import session
from foldlog_projections.session import (
    Group,
    GroupJoined,
    GroupOpened,
    GroupSealed as Sealed,
    GroupTaskEnded,
    State,
)

GROUP_ENDED = "group_ended"
"""The `kind` of the update that tells of a group's end."""


def create(made: Decision, group_id: str, name: str, strategy: MergeStrategy) -> None:
    """Add a new group; nothing if there is one of that id."""
    if group_id not in made.state.folded.groups:
        made.record(session.OPENED, GroupOpened(group_id, name, strategy.value, now()))


def join(made: Decision, group_id: str, task_id: str) -> None:
    """Have a new task belong to a group.

    Raises:
        UnknownGroup: there is none of that id. GroupSealed: no more tasks may join.
    """
    group = made.state.group_record(group_id)
    if group.status != "open":
        raise GroupSealed(group_id, group.status)
    made.record(session.JOINED, GroupJoined(group_id, task_id))


def seal(made: Decision, group_id: str) -> None:
    """Have no more tasks join; nothing if none might.

    Raises:
        UnknownGroup: there is none of that id.
    """
    group = made.state.group_record(group_id)
    if group.status == "open":
        _tell(made, group, [made.record(session.SEALED, Sealed(group_id, now()))])


def end_tasks(made: Decision, ended: Mapping[str, TaskStatus]) -> None:
    """Tell groups of tasks that have ended, all in the same moment; nothing if they have none."""
    drafts: dict[str, list[Draft]] = {}
    for task_id, status in ended.items():
        group = made.state.folded.group_of(task_id)
        if group is not None:
            payload = GroupTaskEnded(group.group_id, task_id, status.value, now())
            drafts.setdefault(group.group_id, []).append(made.record(session.ENDED, payload))
    for group_id, of_group in drafts.items():
        _tell(made, made.state.folded.groups[group_id], of_group)


def _tell(made: Decision, group: Group, drafts: list[Draft]) -> None:
    """Tell of a group's end, if these records of it bring the end about."""
    after = _after(group, drafts)
    if not after.is_ended:
        return
    completed = sum(status == TaskStatus.COMPLETE for status in after.ended.values())
    counts = {
        "group_id": group.group_id,
        "group_name": group.name,
        "task_count": len(after.task_ids),
        "completed_count": completed,
        "failed_count": len(after.task_ids) - completed,
    }
    content = {"kind": GROUP_ENDED, "status": after.status, **counts}
    made.update(group.group_id, UpdateType.NOTIFICATION, content)
    complete = after.status == "complete"
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


def _after(group: Group, drafts: list[Draft]) -> Group:
    """The group that the fold will come to."""
    state = State(groups={group.group_id: group})
    for each in drafts:
        recorded = Recorded(each.id, each.type, each.v, each.ts, each.payload, None, 0, 0, "")
        state = session.kind.apply(state, recorded)
    return state.groups[group.group_id]
