"""Tasks: the last state of each task of a session (StateStore specification 2.11, section 8)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from pydantic import BaseModel

from foldlog.envelope import Draft, Recorded
from foldlog.errors import PayloadError, RedactionFailed
from foldlog.models import TaskContextSnapshot, TaskState, TaskStatus, TaskType
from foldlog.store.guards import all_restored, drafting, restoring
from foldlog.store.lineages import as_of_session
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import encode, enum_text, load, time_text
from foldlog.store.primitives import Primitives
from foldlog.subjects import Subject, checked_id
from foldlog.views import Consistency
from foldlog_projections import tasks
from foldlog_projections.tasks import TaskSaved


class Tasks(Primitives):
    """Tasks by session."""

    @operation(nothing, writes=True)
    async def save_task(self, state: TaskState) -> None:
        """Save a task's state; the last save of a `task_id` stands.

        Raises:
            InvalidId: the session or task id is empty. Nothing was appended.
            PayloadError: a part cannot be held; its path begins with the field. Nothing was
                appended.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`.
        """
        await self.append_drafts(self._task_drafted(state))

    @operation(list)
    async def list_tasks(
        self, session_id: str, *, consistency: Consistency = "strong"
    ) -> list[TaskState]:
        """Return a session's tasks in the order of their first save; [] for an unknown session.

        Raises:
            InvalidId: the session id is empty.
            LogUnavailable, LogCorrupt: they could not be read whole.
        """
        folded = await self.read(tasks.kind, session_id, consistency=consistency)
        return as_of_session(all_restored(restored_task, folded.state.values()), session_id)

    @drafting("state")
    def _task_drafted(self, state: TaskState) -> tuple[Subject, list[Draft]]:
        subject = self.subject(tasks.kind, state.session_id)
        record = recorded_task(state)
        redacted: TaskSaved = self.redacted("save_task", tasks.kind(state.session_id), record)
        check_context("save_task", redacted.context_snapshot, state.context_snapshot)
        return subject, [encode(tasks.kind, redacted)]


def check_context(method: str, redacted: object, context: TaskContextSnapshot) -> None:
    """Raise RedactionFailed where a hook has left no snapshot of a context."""
    if not isinstance(redacted, Mapping) or redacted.keys() != dict(context).keys():
        reason = "context_snapshot has to stay a mapping with the same names"
        raise RedactionFailed(tasks.SAVED, method, reason)


@drafting("state")
def recorded_task(state: TaskState) -> TaskSaved:
    """The record that saves a task. Errors as `Tasks.save_task`."""
    if not isinstance(state.context_snapshot, BaseModel):
        raise PayloadError("context_snapshot", f"{state.context_snapshot!r:.80} is no snapshot")
    return TaskSaved(
        task_id=checked_id(state.task_id, "task_id"),
        session_id=state.session_id,
        status=enum_text(state.status, TaskStatus, "status"),
        task_type=enum_text(state.task_type, TaskType, "task_type"),
        priority=state.priority,
        context_snapshot=dict(state.context_snapshot),
        created_at=time_text(state.created_at, "created_at"),
        updated_at=time_text(state.updated_at, "updated_at"),
        trace_id=state.trace_id,
        error=state.error,
        description=state.description,
        result=state.result,
        progress=state.progress,
    )


@restoring
def restored_task(item: Recorded) -> TaskState:
    """Return the task of a whole save: a new object."""
    saved = load(TaskSaved, item.payload)
    return TaskState(
        task_id=saved.task_id,
        session_id=saved.session_id,
        status=TaskStatus(saved.status),
        task_type=TaskType(saved.task_type),
        priority=saved.priority,
        context_snapshot=TaskContextSnapshot.model_construct(**saved.context_snapshot),
        trace_id=saved.trace_id,
        result=saved.result,
        error=saved.error,
        description=saved.description,
        progress=saved.progress,
        created_at=dt.datetime.fromisoformat(saved.created_at),
        updated_at=dt.datetime.fromisoformat(saved.updated_at),
    )
