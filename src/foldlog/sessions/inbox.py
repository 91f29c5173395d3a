"""The steering events of a task, as they come."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from foldlog.models import SteeringEvent, SteeringEventType
from foldlog.sessions.ledger import Ledger
from foldlog.sessions.status import FINAL

Acknowledge = Callable[[SteeringEvent], Awaitable[bool]]


async def events(
    ledger: Ledger, task_id: str, acknowledge: Acknowledge | None
) -> AsyncGenerator[SteeringEvent]:
    """Yield the events of a task that nobody has taken, then new ones: see `Session.inbox`."""
    feed = ledger.journal
    standing = await ledger.read()
    if standing.task(task_id).status in FINAL:
        # Nobody will write any more; what is left to read has an end.
        for event in await feed.list_steering(ledger.session_id, task_id=task_id, limit=_ALL):
            if await _is_mine(ledger, event, acknowledge):
                yield event
        return
    async with aclosing(feed.watch_steering(ledger.session_id, task_id=task_id)) as watched:
        async for event in watched:
            if await _is_mine(ledger, event, acknowledge):
                yield event
            if event.event_type is SteeringEventType.CANCEL:
                return


_ALL = 2**31
"""More than a feed can hold."""


async def _is_mine(ledger: Ledger, event: SteeringEvent, acknowledge: Acknowledge | None) -> bool:
    standing = await ledger.read("session")
    if event.event_id in standing.state.acknowledged:
        return False
    return acknowledge is None or await acknowledge(event)
