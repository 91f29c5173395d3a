"""Steering: what an event does to the session, and the inbox in which a task receives it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, TypeVar

from foldlog.models import SteeringEvent, SteeringEventType, TaskStatus
from foldlog.sessions import context, lifecycle
from foldlog.sessions.decision import Decision
from foldlog.sessions.errors import IllegalTransition
from foldlog.sessions.state import read_session
from foldlog.store.core import core_of
from foldlog.store.store import BaseStore
from foldlog_projections import tasks
from foldlog_projections.sessions.session import Acknowledged

_DECISIONS: Final = (SteeringEventType.APPROVE, SteeringEventType.REJECT)
_ALL: Final = 2**31
"""More than a feed can hold."""

T = TypeVar("T")

Acknowledge = Callable[[SteeringEvent], Awaitable[bool]]


def steer(made: Decision, event: SteeringEvent) -> bool:
    """Put an event on record and let it take effect; False if nothing is left to decide.

    Raises:
        NotFound: there is no such task. IllegalTransition: it cannot do that, or has ended.
        MergeRefused, PayloadError: a patch was approved that cannot be merged.
    """
    patch_id = event.payload.get("patch_id") if event.event_type in _DECISIONS else None
    if isinstance(patch_id, str) and patch_id in made.state.folded.decided:
        return False
    made.steer(event)
    if not isinstance(patch_id, str) or patch_id not in made.state.folded.pending:
        _steer_task(made, event)
        return True
    if event.event_type is SteeringEventType.REJECT:
        return context.reject(made, patch_id)
    return context.approve(made, patch_id)


def acknowledge(made: Decision, event_id: str, worker: str) -> bool:
    """Assign an event to a worker; False if another worker has taken it."""
    if event_id in made.state.folded.acknowledged:
        return False
    made.record(Acknowledged(event_id, worker))
    return True


def _steer_task(made: Decision, event: SteeringEvent) -> None:
    task_id, kind = event.task_id, event.event_type
    reason = event.payload.get("reason")
    match kind:
        case SteeringEventType.PAUSE:
            lifecycle.move(made, task_id, TaskStatus.PAUSED, reason=reason or "paused")
        case SteeringEventType.RESUME:
            task = made.state.brief(task_id)
            if task.status is not TaskStatus.PAUSED:
                raise IllegalTransition(task_id, task.status, kind)
            lifecycle.move(made, task_id, TaskStatus.RUNNING, reason=reason or "resumed")
        case SteeringEventType.PRIORITIZE:
            lifecycle.prioritize(made, task_id, event.payload["priority"])
        case SteeringEventType.CANCEL:
            _cancel(made, event, reason or "cancelled")
        case _:
            lifecycle.check_unended(made, task_id, kind)


def _cancel(made: Decision, event: SteeringEvent, reason: str) -> None:
    for task_id in lifecycle.cancel(made, event.task_id, reason)[1:]:
        made.steer(
            SteeringEvent(
                session_id=event.session_id,
                task_id=task_id,
                event_id=f"{event.event_id}:{task_id}",
                event_type=SteeringEventType.CANCEL,
                payload={"reason": reason, "cascaded_from": event.task_id},
                trace_id=event.trace_id,
                source="system",
            )
        )


async def inbox(
    store: BaseStore, session_id: str, task_id: str, take: Acknowledge | None
) -> AsyncGenerator[SteeringEvent]:
    """Yield the events of a task that nobody has taken, then new ones: see `Session.inbox`."""

    async def is_free(event: SteeringEvent) -> bool:
        state = await read_session(store, session_id, "session")
        if state.is_acknowledged(event.event_id):
            return False
        return take is None or await take(event)

    seen: str | None = None
    ended = asyncio.create_task(_ended(store, session_id, task_id), name="foldlog inbox")
    try:
        watched = store.watch_steering(session_id, task_id=task_id)
        async with aclosing(until(ended, watched)) as events:
            async for event in events:
                seen = event.event_id
                if await is_free(event):
                    yield event
        await ended
    finally:
        ended.cancel()
        await asyncio.wait([ended])
    # The task has ended, so no event comes any more, and the rest is finite.
    for event in await store.list_steering(session_id, since_id=seen, task_id=task_id, limit=_ALL):
        if await is_free(event):
            yield event


async def until(ended: asyncio.Task[None], watched: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """Yield what a watcher yields until a task has ended, and close the watcher."""
    async with aclosing(watched):
        while not ended.done():
            coming = asyncio.ensure_future(anext(watched))
            try:
                await asyncio.wait([coming, ended], return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    return
                item = coming.result()
            finally:
                if not coming.done():
                    coming.cancel()
                    await asyncio.wait([coming])
            yield item


async def _ended(store: BaseStore, session_id: str, task_id: str) -> None:
    """Return when the task has ended."""
    async with aclosing(core_of(store).advances(tasks.kind(session_id))) as advances:
        async for _ in advances:
            state = await read_session(store, session_id, "session")
            if state.brief(task_id).status in lifecycle.FINAL:
                return
