"""The steering events of a task, as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

from foldlog.models import SteeringEvent
from foldlog.sessions.lifecycle import FINAL
from foldlog.sessions.state import read_session
from foldlog.store.store import BaseStore
from foldlog_projections import tasks

Acknowledge = Callable[[SteeringEvent], Awaitable[bool]]
_ALL: Final = 2**31
"""More than a feed can hold."""


async def events(
    store: BaseStore, session_id: str, task_id: str, acknowledge: Acknowledge | None
) -> AsyncGenerator[SteeringEvent]:
    """Yield the events of a task that nobody has taken, then new ones: see `Session.inbox`."""

    async def is_free(event: SteeringEvent) -> bool:
        state = await read_session(store, session_id, "session")
        if state.is_acknowledged(event.event_id):
            return False
        return acknowledge is None or await acknowledge(event)

    seen: str | None = None
    ended = asyncio.create_task(_ended(store, session_id, task_id), name="foldlog inbox")
    try:
        async with aclosing(store.watch_steering(session_id, task_id=task_id)) as watched:
            while not ended.done():
                coming = asyncio.ensure_future(anext(watched))
                try:
                    await asyncio.wait([coming, ended], return_when=asyncio.FIRST_COMPLETED)
                    if not coming.done():
                        break
                    event = coming.result()
                finally:
                    if not coming.done():
                        coming.cancel()
                        await asyncio.wait([coming])
                seen = event.event_id
                if await is_free(event):
                    yield event
        await ended
    finally:
        ended.cancel()
        await asyncio.wait([ended])
    # Nobody writes any more; what is left to read has an end.
    for event in await store.list_steering(session_id, since_id=seen, task_id=task_id, limit=_ALL):
        if await is_free(event):
            yield event


async def _ended(store: BaseStore, session_id: str, task_id: str) -> None:
    """Return when the task has ended."""
    async with aclosing(store.advances(tasks.kind(session_id))) as advances:
        async for _ in advances:
            state = await read_session(store, session_id, "session")
            if state.brief(task_id).status in FINAL:
                return
