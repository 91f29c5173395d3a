"""Tasks: the last state of each task of a session (StateStore specification 2.11, section 8)."""

from __future__ import annotations

import datetime as dt

from pydantic import BaseModel

from foldlog.envelope import Draft, Recorded, draft, upsert_id
from foldlog.errors import PayloadError
from foldlog.models import TaskContextSnapshot, TaskState, TaskStatus, TaskType
from foldlog.store.guards import all_restored, drafting, restoring
from foldlog.store.journal import Journal
from foldlog.store.lineages import own
from foldlog.store.payloads import TaskSaved, dump, enum_text, load, time_text
from foldlog.subjects import Subject, checked_id
from foldlog.views import Consistency
from foldlog_projections import tasks


class Tasks:
    """Tasks by session."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def save_task(self, state: TaskState) -> None:
        """Save a task's state; the last save of a `task_id` stands.

        Raises:
            InvalidId: the session or task id is empty. Nothing was appended.
            PayloadError: a part cannot be held; its path begins with the field. Nothing was
                appended.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`.
        """
        await self._journal.append(self._drafted(state))

    @drafting("state")
    def _drafted(self, state: TaskState) -> tuple[Subject, list[Draft]]:
        return self._journal.subject(tasks, state.session_id), [drafted(state)]

    async def list_tasks(
        self, session_id: str, *, consistency: Consistency = "strong"
    ) -> list[TaskState]:
        """Return a session's tasks in the order of their first save; [] for an unknown session.

        Errors as `Events.load_history`.
        """
        folded = await self._journal.read(tasks, session_id, consistency=consistency)
        return own(all_restored(restored, folded.state.values()), session_id)


@drafting("state")
def drafted(state: TaskState) -> Draft:
    """Return the envelope that saves a task. Errors as `Tasks.save_task`."""
    if not isinstance(state.context_snapshot, BaseModel):
        raise PayloadError("context_snapshot", f"{state.context_snapshot!r:.80} is no snapshot")
    body = dump(
        TaskSaved(
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
        ),
        "context_snapshot",
        "result",
        "progress",
    )
    return draft(tasks.SAVED, body, id=upsert_id(body))


@restoring
def restored(item: Recorded) -> TaskState:
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
