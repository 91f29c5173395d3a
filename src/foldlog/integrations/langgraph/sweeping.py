"""Removing items whose time is over, now and then, as long as the store is open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Final

from foldlog.errors import FoldlogError, StoreClosed
from foldlog.opening import Store
from foldlog.store.core import core_of

_log: Final = logging.getLogger("foldlog")

Sweep = Callable[[Store], Awaitable[int]]


class Sweeper:
    """Calls `sweep` with a pause before each time. Used on the store's event loop only."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep
        self._task: asyncio.Task[None] | None = None

    async def start(self, store: Store, seconds: float) -> None:
        """Begin, unless it has begun; it ends when the store closes."""
        if self._task is None or self._task.done():
            run = self._run(store, seconds)
            self._task = asyncio.create_task(run, name="foldlog sweeper", context=Context())
            core_of(store).on_close(self.stop)

    async def stop(self) -> None:
        """End, at once. Fine if it has not begun."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self, store: Store, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                count = await self._sweep(store)
            except StoreClosed:
                return
            except FoldlogError as error:
                _log.warning("expired items of a LangGraph store were not swept: %s", error)
            else:
                if count:
                    _log.info("%d expired items of a LangGraph store were swept", count)
