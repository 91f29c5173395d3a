"""Readers that wait for views are woken by one subscription to all of their kinds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import chain
from typing import Final

from foldlog.errors import FoldlogError
from foldlog.opening import Store
from foldlog.store.subscribing import LogItem

Keys = tuple[str, ...]

_log: Final = logging.getLogger("foldlog")


class Wake(asyncio.Event):
    """Is set whenever there may be more. `is_over`: not any more, so that readers ask anew."""

    is_over: bool = False

    def put(self, _: bytes = b"") -> None:
        """There may be more."""
        self.set()

    def end(self) -> None:
        """Nobody looks for more any more."""
        self.is_over = True
        self.set()


class Wakes:
    """An event for each reader, by the keys of its view. One task, while there are readers."""

    def __init__(self, store: Store, kinds: Sequence[str]) -> None:
        self._store = store
        self._kinds = kinds
        self._waiting: dict[Keys, set[Wake]] = {}
        self._task: asyncio.Task[None] | None = None
        self._began = asyncio.Event()

    @asynccontextmanager
    async def listening(self, keys: Keys) -> AsyncIterator[Wake]:
        """Give an event that is set whenever there may be more of a view from now on."""
        wake = Wake()
        waiting = self._waiting.setdefault(keys, set())
        waiting.add(wake)
        try:
            if self._task is None or self._task.done():
                self._began.clear()
                self._task = asyncio.create_task(self._follow(), name="foldlog streams")
            await self._began.wait()
            yield wake
        finally:
            waiting.discard(wake)
            if not waiting:
                del self._waiting[keys]
            if not self._waiting and (task := self._task) is not None:
                self._task = None
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _follow(self) -> None:
        try:
            following = self._store.subscribe(self._kinds, after=await self._store.position())
            self._began.set()
            async with aclosing(following.pages()) as pages:
                async for page in pages:
                    for keys in {_keys_of(item) for item in page.items}:
                        for each in self._waiting.get(keys, ()):
                            each.set()
        except FoldlogError as error:  # readers meet it themselves, or look again in time
            _log.info("following streams ended: %s", error)
        finally:
            if self._task is asyncio.current_task():  # else who waits now has another one
                self._began.set()
                for each in chain.from_iterable(self._waiting.values()):
                    each.set()


def _keys_of(item: LogItem) -> Keys:
    """The keys of a view; of a task also its id, by which what a run says is known."""
    task_id = getattr(item.record, "task_id", None)
    return (*item.keys, task_id) if task_id else item.keys
