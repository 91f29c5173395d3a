"""The steering events of a task, as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

from foldlog.models import SteeringEvent
from foldlog.sessions.ledger import Ledger
from foldlog.sessions.status import FINAL
from foldlog_projections import tasks

Acknowledge = Callable[[SteeringEvent], Awaitable[bool]]
_ALL: Final = 2**31
"""More than a feed can hold."""


async def events(
    ledger: Ledger, task_id: str, acknowledge: Acknowledge | None
) -> AsyncGenerator[SteeringEvent]:
    """Yield the events of a task that nobody has taken, then new ones: see `Session.inbox`."""
    feed, session_id = ledger.journal, ledger.session_id
    seen: str | None = None
    ended = asyncio.create_task(_ended(ledger, task_id), name="foldlog inbox")
    try:
        async with aclosing(feed.watch_steering(session_id, task_id=task_id)) as watched:
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
                if await _is_free(ledger, event, acknowledge):
                    yield event
        await ended
    finally:
        ended.cancel()
        await asyncio.wait([ended])
    # Nobody writes any more; what is left to read has an end.
    for event in await feed.list_steering(session_id, since_id=seen, task_id=task_id, limit=_ALL):
        if await _is_free(ledger, event, acknowledge):
            yield event


async def _ended(ledger: Ledger, task_id: str) -> None:
    """Return when the task has ended."""
    async with aclosing(ledger.journal.advances(tasks.kind(ledger.session_id))) as advances:
        async for _ in advances:
            if (await ledger.read("session")).task(task_id).status in FINAL:
                return


async def _is_free(ledger: Ledger, event: SteeringEvent, acknowledge: Acknowledge | None) -> bool:
    standing = await ledger.read("session")
    if event.event_id in standing.state.acknowledged:
        return False
    return acknowledge is None or await acknowledge(event)
