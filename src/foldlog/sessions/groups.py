"""Groups of tasks: who joins, when no more may, and when all of it has ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from foldlog.envelope import Draft, Recorded
from foldlog.models import TaskStatus, TaskType, UpdateType
from foldlog.sessions import records
from foldlog.sessions.errors import GroupSealed, UnknownGroup
from foldlog.sessions.models import MergeStrategy, TaskGroup
from foldlog.sessions.standing import Entry, Standing
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


def opened(standing: Standing, group_id: str, name: str, strategy: MergeStrategy) -> Entry:
    """A new group; nothing, if there is one of that id."""
    if group_id in standing.state.groups:
        return Entry()
    payload = GroupOpened(group_id, name, strategy.value, records.now())
    return Entry(session=[records.drafted(session.OPENED, payload)])


def joined(state: State, group_id: str, task_id: str) -> Draft:
    """A new task belongs to the group.

    Raises:
        UnknownGroup: there is none of that id. GroupSealed: no more tasks may join.
    """
    group = found(state, group_id)
    if group.status != "open":
        raise GroupSealed(group_id, group.status)
    return records.drafted(session.JOINED, GroupJoined(group_id, task_id))


def sealed(standing: Standing, group_id: str) -> Entry:
    """No more tasks may join; nothing, if none might.

    Raises:
        UnknownGroup: there is none of that id.
    """
    group = found(standing.state, group_id)
    if group.status != "open":
        return Entry()
    draft = records.drafted(session.SEALED, Sealed(group_id, records.now()))
    return _told(standing, group, [draft])


def tasks_ended(standing: Standing, ended: Mapping[str, TaskStatus]) -> Entry:
    """Tasks have come to these ends, all in the same moment; nothing, if they are in no group."""
    drafts: dict[str, list[Draft]] = {}
    for task_id, status in ended.items():
        group = standing.state.group_of(task_id)
        if group is not None:
            payload = GroupTaskEnded(group.group_id, task_id, status.value, records.now())
            draft = records.drafted(session.ENDED, payload)
            drafts.setdefault(group.group_id, []).append(draft)
    entry = Entry()
    for group_id, of_group in drafts.items():
        entry.add(_told(standing, standing.state.groups[group_id], of_group))
    return entry


def found(state: State, group_id: str) -> Group:
    """Return a group.

    Raises:
        UnknownGroup: there is none of that id.
    """
    group = state.groups.get(group_id)
    if group is None:
        raise UnknownGroup(group_id)
    return group


def restored(group: Group) -> TaskGroup:
    """Return a group as users see it."""
    completed = [t for t in group.task_ids if group.ended.get(t) == TaskStatus.COMPLETE]
    return TaskGroup(
        group_id=group.group_id,
        name=group.name,
        status=group.status,
        merge_strategy=MergeStrategy(group.strategy),
        task_ids=group.task_ids,
        completed_task_ids=tuple(completed),
        failed_task_ids=tuple(t for t in group.task_ids if t in group.ended and t not in completed),
        created_at=datetime.fromisoformat(group.created_at),
        sealed_at=_moment(group.sealed_at),
        ended_at=_moment(group.ended_at),
    )


def _told(standing: Standing, group: Group, drafts: list[Draft]) -> Entry:
    """What changes a group; and if that is its end, what tells of it."""
    entry = Entry(session=drafts)
    after = _after(group, drafts)
    if not after.is_ended:
        return entry
    completed = sum(status == TaskStatus.COMPLETE for status in after.ended.values())
    counts = {
        "group_id": group.group_id,
        "group_name": group.name,
        "task_count": len(after.task_ids),
        "completed_count": completed,
        "failed_count": len(after.task_ids) - completed,
    }
    content = {"kind": GROUP_ENDED, "status": after.status, **counts}
    entry.updates.append(
        records.update(standing.session_id, group.group_id, UpdateType.NOTIFICATION, content)
    )
    complete = after.status == "complete"
    entry.telemetry.append(
        TaskTelemetryEvent(
            event_type="task_group_completed" if complete else "task_group_failed",
            outcome="completed" if complete else "failed",
            session_id=standing.session_id,
            task_id=group.group_id,
            task_type=TaskType.BACKGROUND,
            status=TaskStatus.COMPLETE if complete else TaskStatus.FAILED,
            extra=counts,
        )
    )
    return entry


def _after(group: Group, drafts: list[Draft]) -> Group:
    """The group that the fold will come to."""
    state = State(groups={group.group_id: group})
    for each in drafts:
        recorded = Recorded(each.id, each.type, each.v, each.ts, each.payload, None, 0, 0, "")
        state = session.kind.apply(state, recorded)
    return state.groups[group.group_id]


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
