"""What the tests of runs run, and how they look at it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import foldlog
from foldlog import kinds
from foldlog.models import SteeringEvent, SteeringEventType, Waiting

S = "ann"
R = "book"


class Calls:
    """Functions that remember having been called."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def giving(self, name: str, result: Any = None) -> Callable[..., Awaitable[Any]]:
        async def call(*_: Any) -> Any:
            self.made.append(name)
            return result

        return call

    def raising(self, name: str, error: BaseException) -> Callable[..., Awaitable[Any]]:
        async def call(*_: Any) -> Any:
            self.made.append(name)
            raise error

        return call


async def steer(
    store: foldlog.Store, kind: SteeringEventType, run: str = R, **payload: Any
) -> SteeringEvent:
    """Give a run of the session S an order."""
    event = SteeringEvent(session_id=S, task_id=run, event_type=kind, payload=payload)
    async with store.session(S) as session:
        await session.steer(event)
    return event


async def status(store: foldlog.Store, run: str = R, session_id: str = S) -> str:
    """Where a run stands, as its list of tasks says."""
    [found] = [each for each in await store.list_tasks(session_id) if each.task_id == run]
    return found.status.value


async def begun(store: foldlog.Store, run: str = R) -> None:
    """Return when a step of a run is on record."""
    async with asyncio.timeout(30), aclosing(store.watch(kinds.runs(S, run))) as records:
        async for each in records:
            if each.type == "run.step_started":
                return


async def next_waiting(store: foldlog.Store) -> Waiting:
    """What waits for a person, once something does."""
    async with asyncio.timeout(30), aclosing(store.watch_waiting()) as waiting:
        async for each in waiting:
            return each
    raise AssertionError("the store was closed")


async def die_in(store: foldlog.Store, step: str, run: str = R, **options: Any) -> None:
    """Leave a step begun and not ended, as a process does that dies in it."""

    async def die() -> None:
        raise asyncio.CancelledError

    try:
        async with store.run(run, session_id=S) as opened:
            await opened.step(step, die, **options)
    except asyncio.CancelledError:
        return
    raise AssertionError("it lives")
