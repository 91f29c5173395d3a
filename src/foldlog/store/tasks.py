"""Tasks: the last state of each task of a session (StateStore specification 2.11, section 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from pydantic import BaseModel

from foldlog.errors import PayloadError, RedactionFailed
from foldlog.models import TaskContextSnapshot, TaskState, TaskStatus, TaskType, WaitingKind
from foldlog.store.core import Capability
from foldlog.store.operation import nothing, operation
from foldlog.store.ownership import as_of_session
from foldlog.store.payloads import ID, TIME, Field, Mapper, drafting, encode, member_of
from foldlog.store.waiting import Ref, began, on_list
from foldlog.views import Consistency
from foldlog_projections import tasks
from foldlog_projections.tasks import TaskSaved


def _snapshot_fields(snapshot: object, field: str) -> dict[str, Any]:
    if not isinstance(snapshot, BaseModel):
        raise PayloadError(field, f"{snapshot!r:.80} is no snapshot")
    return dict(snapshot)


TASKS: Final = Mapper(
    "state",
    TaskState,
    TaskSaved,
    context_snapshot=Field(
        _snapshot_fields, lambda fields: TaskContextSnapshot.model_construct(**fields)
    ),
    task_id=ID,
    status=member_of(TaskStatus),
    task_type=member_of(TaskType),
    created_at=TIME,
    updated_at=TIME,
)


class Tasks(Capability):
    """Tasks by session."""

    @operation(nothing, writes=True)
    async def save_task(self, state: TaskState) -> None:
        """Save a task's state. The last save of a `task_id` in its session stands.

        Args:
            state: the task, which names its session.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.

        Examples:
            >>> task = foldlog.TaskState(
            ...     task_id="book", session_id="trip", status=foldlog.TaskStatus.RUNNING,
            ...     task_type=foldlog.TaskType.BACKGROUND, priority=0,
            ...     context_snapshot=foldlog.TaskContextSnapshot(session_id="trip", task_id="book"),
            ... )
            >>> await store.save_task(task)
            >>> [each.status.value for each in await store.list_tasks("trip")]
            ['RUNNING']
        """
        record = TASKS.record(state)
        subject = self._core.subject(tasks.kind, record.session_id)
        redacted = self._core.redacted("save_task", tasks.kind(record.session_id), record)
        check_context("save_task", redacted.context_snapshot, state.context_snapshot)
        if redacted.status != TaskStatus.PAUSED:
            await self._core.append_drafts((subject, [encode(tasks.kind, redacted)]))
            return
        paused = tasks.PausedTask(**msgspec.structs.asdict(redacted), paused_at=redacted.updated_at)
        draft = encode(tasks.kind, paused, type=tasks.SAVED)
        ref = waits_as(record.session_id, record.task_id, redacted.updated_at)
        waits = on_list(self._core, subject.shard, began(ref, record.session_id))
        await self._core.append_drafts((subject, [draft]), waits, atomic=True)

    @operation(list)
    async def list_tasks(
        self, session_id: str, *, consistency: Consistency = "strong"
    ) -> list[TaskState]:
        """Return a session's tasks in the order of their first save; [] for an unknown session.

        Args:
            session_id: whose tasks.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.

        Examples:
            >>> await store.list_tasks("unknown")
            []
        """
        folded = await self._core.read(tasks.kind, session_id, consistency=consistency)
        return as_of_session(TASKS.restore_all(folded.state.values()), session_id)


def waits_as(session_id: str, task_id: str, paused_at: str) -> Ref:
    """What a paused task is called in the list of all that waits for a person."""
    return Ref.at(WaitingKind.TASK, paused_at, session_id, task_id)


@drafting("context_snapshot")
def check_context(method: str, redacted: object, context: TaskContextSnapshot) -> None:
    """Raise RedactionFailed if a hook returned something else than a snapshot of a context."""
    if not isinstance(redacted, Mapping) or redacted.keys() != dict(context).keys():
        reason = "context_snapshot has to stay a mapping with the same names"
        raise RedactionFailed(tasks.SAVED, method, reason)
