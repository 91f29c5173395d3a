"""What tests of the page save."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec

from foldlog import (
    StateUpdate,
    Store,
    StoredEvent,
    TaskContextSnapshot,
    TaskState,
    TaskStatus,
    TaskType,
    UpdateType,
)


def said(session: str, number: int, content: Any = None, **fields: Any) -> StateUpdate:
    """An update."""
    return StateUpdate(
        session_id=session,
        task_id=fields.pop("task_id", "t"),
        update_id=f"{session}-{number}",
        update_type=fields.pop("update_type", UpdateType.PROGRESS),
        content={"text": f"update {number}"} if content is None else content,
        **fields,
    )


def event(trace: str, number: int, **payload: Any) -> StoredEvent:
    """A runtime event."""
    return StoredEvent(trace, float(number), "tool_call", "search", f"n{number}", payload)


async def task(
    store: Store, session: str, task_id: str, status: TaskStatus = TaskStatus.RUNNING
) -> None:
    """Save a task."""
    snapshot = TaskContextSnapshot(session_id=session, task_id=task_id, query=f"do {task_id}")
    await store.save_task(
        TaskState(
            task_id=task_id,
            session_id=session,
            status=status,
            task_type=TaskType.FOREGROUND,
            priority=0,
            context_snapshot=snapshot,
        )
    )


class Message(msgspec.Struct):
    """A server-sent event."""

    data: Any
    id: str | None = None
    event: str = "message"


async def messages(response: httpx.Response) -> AsyncIterator[Message]:
    """The events of a stream."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        else:
            if "data" in fields:
                data = msgspec.json.decode(fields["data"])
                yield Message(data, fields.get("id"), fields.get("event", "message"))
            fields = {}
