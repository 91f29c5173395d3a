"""Readers that wait for records are woken by one subscription to all of their kinds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Sequence, Set
from contextlib import aclosing, asynccontextmanager
from itertools import chain
from operator import attrgetter
from typing import Final

from foldlog.errors import FoldlogError
from foldlog.opening import Store
from foldlog.store.subscribing import LogItem

_log: Final = logging.getLogger("foldlog")


class Wakes:
    """An event for each reader, by the name of what it reads. One task, while there are readers.

    `named` gives the name of what a record is of: of its view, unless it says otherwise.
    """

    def __init__(
        self,
        store: Store,
        kinds: Sequence[str] | None,
        named: Callable[[LogItem], Hashable] = attrgetter("keys"),
    ) -> None:
        self._store = store
        self._kinds = kinds
        self._named = named
        self._waiting: dict[Hashable, set[asyncio.Event]] = {}
        self._parts: dict[Hashable, Set[Hashable]] = {}
        self._wholes: dict[Hashable, set[Hashable]] = {}
        self._task: asyncio.Task[None] | None = None
        self._began = asyncio.Event()

    @asynccontextmanager
    async def listening(self, name: Hashable) -> AsyncIterator[asyncio.Event]:
        """Give an event that is set whenever there may be more from now on."""
        wake = asyncio.Event()
        waiting = self._waiting.setdefault(name, set())
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
                del self._waiting[name]
                self.consists(name, frozenset())
            if not self._waiting and (task := self._task) is not None:
                self._task = None
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def consists(self, name: Hashable, parts: Set[Hashable]) -> None:
        """Have who listens be woken by what has one of these names, too, and by no other parts."""
        for part in self._parts.pop(name, ()):
            self._wholes[part].discard(name)
            if not self._wholes[part]:
                del self._wholes[part]
        if parts and name in self._waiting:
            self._parts[name] = parts
            for part in parts:
                self._wholes.setdefault(part, set()).add(name)

    async def _follow(self) -> None:
        try:
            following = self._store.subscribe(self._kinds, after=await self._store.position())
            self._began.set()
            async with aclosing(following.pages()) as pages:
                async for page in pages:
                    for name in {self._named(item) for item in page.items}:
                        for whole in (name, *self._wholes.get(name, ())):
                            for each in self._waiting.get(whole, ()):
                                each.set()
        except FoldlogError as error:  # readers meet it themselves, or look again in time
            _log.info("following streams ended: %s", error)
        finally:
            if self._task is asyncio.current_task():  # else who waits now has another one
                self._began.set()
                for each in chain.from_iterable(self._waiting.values()):
                    each.set()
