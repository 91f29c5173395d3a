"""A session's task and the execution that does it: when one ends, so does the other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from foldlog.models import SteeringEvent, SteeringEventType, TaskStatus
from foldlog.recovery import Execution, ExecutionPaused
from foldlog.recovery.errors import consists_of
from foldlog.sessions import IllegalTransition, Session
from foldlog.sessions.lifecycle import FINAL


@asynccontextmanager
async def task_execution(
    opening: AbstractAsyncContextManager[Session],
    execution: Execution,
    task_id: str,
) -> AsyncIterator[Execution]:
    """Do a task as an execution: see `Store.task_execution`."""
    async with opening as session:
        task = await session.spawn_task(task_id=task_id)
        match task.status:
            case TaskStatus.PENDING:
                await session.start_task(task_id)
            case TaskStatus.PAUSED:
                await _steer(session, task_id, SteeringEventType.RESUME)
            case TaskStatus.FAILED | TaskStatus.CANCELLED:
                raise IllegalTransition(task_id, task.status, TaskStatus.RUNNING)
        try:
            async with execution:
                yield execution
        except Exception as error:
            await session.refresh()
            is_running = session.get_task(task_id).status is TaskStatus.RUNNING
            if is_running and consists_of(error, ExecutionPaused):
                await _steer(session, task_id, SteeringEventType.PAUSE, "waits for an answer")
            raise
        await session.refresh()
        if session.get_task(task_id).status is TaskStatus.PAUSED:
            # Somebody paused what was about to end.
            await _steer(session, task_id, SteeringEventType.RESUME)
        if session.get_task(task_id).status not in FINAL:
            await session.complete_task(task_id)


async def _steer(
    session: Session, task_id: str, event_type: SteeringEventType, reason: str = ""
) -> None:
    """Pause or resume the task, on record as the library's doing and not a person's."""
    await session.steer(
        SteeringEvent(
            session_id=session.session_id,
            task_id=task_id,
            event_type=event_type,
            payload={"reason": reason} if reason else {},
            source="system",
        )
    )
