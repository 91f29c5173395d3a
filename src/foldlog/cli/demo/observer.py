"""A live watcher: what arrives by itself while somebody else writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Final, Self, cast

from foldlog.errors import FoldlogError, LogTimeout
from foldlog.models import StateUpdate, SteeringEvent
from foldlog.opening import Store

Item = StateUpdate | SteeringEvent

_PATIENCE: Final = 10.0
"""Seconds until what was saved has to have arrived: a lost push is noticed in half of that."""


class Observer:
    """Follows the updates and the steering of some sessions for the length of an `async with`."""

    def __init__(
        self, store: Store, sessions: Sequence[str], on_item: Callable[[Item], None]
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._on_item = on_item
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []
        self._arrived = asyncio.Event()
        self._failure: FoldlogError | None = None
        self.seen: list[str] = []
        """The ids of what arrived, in the order in which it did."""

    async def wait_for(self, ids: set[str]) -> None:
        """Return once all of `ids` have arrived.

        Raises:
            LogTimeout: some are still missing after 10 seconds. What ended a watcher is raised.
        """
        try:
            async with asyncio.timeout(_PATIENCE):
                while not ids <= set(self.seen):
                    if self._failure is not None:
                        raise self._failure
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            raise LogTimeout("watching", _PATIENCE) from None

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        for session in self._sessions:
            for items in (
                self._store.watch_updates(session),
                self._store.watch_steering(session),
            ):
                self._tasks.append(self._group.create_task(self._follow(items)))
        return self

    async def __aexit__(self, *raised: object) -> None:
        for task in self._tasks:
            task.cancel()
        await self._group.__aexit__(None, None, None)

    async def _follow(
        self, items: AsyncIterator[StateUpdate] | AsyncIterator[SteeringEvent]
    ) -> None:
        try:
            async with aclosing(cast(AsyncGenerator[Item, None], items)) as stream:
                async for item in stream:
                    self.seen.append(id_of(item))
                    self._on_item(item)
                    self._arrived.set()
        except FoldlogError as error:
            self._failure = error  # for the one who waits
            self._arrived.set()


def id_of(item: Item) -> str:
    """The id under which an update or a steering event has its effect once."""
    return item.update_id if isinstance(item, StateUpdate) else item.event_id
