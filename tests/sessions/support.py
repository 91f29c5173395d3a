"""What the tests of sessions share."""

from __future__ import annotations

from typing import Any

import foldlog
from foldlog.sessions import ContextPatch, Session


def patch(task_id: str = "task", **fields: Any) -> ContextPatch:
    """What a background task found out."""
    values: dict[str, Any] = {"digest": [f"{task_id} is done"], "facts": {"by": task_id}}
    return ContextPatch(task_id=task_id, **(values | fields))


def steer(
    kind: str,
    task_id: str = "task",
    session_id: str = "s",
    event_id: str | None = None,
    **payload: Any,
) -> foldlog.SteeringEvent:
    """A steering event of session `s`."""
    fields = {} if event_id is None else {"event_id": event_id}
    return foldlog.SteeringEvent(
        session_id=session_id,
        task_id=task_id,
        event_type=foldlog.SteeringEventType(kind),
        payload=payload,
        **fields,
    )


async def running(session: Session, task_id: str = "task", **options: Any) -> foldlog.TaskState:
    """A task that runs."""
    await session.spawn_task(task_id=task_id, **options)
    return await session.start_task(task_id)


async def statuses(store: foldlog.Store, session_id: str = "s") -> dict[str, str]:
    """Where each task stands, by the store's own word."""
    return {task.task_id: task.status.value for task in await store.list_tasks(session_id)}


async def told(
    store: foldlog.Store, kind: str, session_id: str = "s", task_id: str | None = None
) -> list[Any]:
    """The contents of the updates of a kind; the session may have told them by another store."""
    updates = await store.list_updates(
        session_id, task_id=task_id, limit=10_000, consistency="strong"
    )
    return [update.content for update in updates if update.update_type.value == kind]
