"""A store for callers that block: on an event loop and a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from foldlog.store import Store
from foldlog.store.loop_thread import LoopThread

T = TypeVar("T")
Open = Callable[[], Awaitable[Store]]


class BlockingStore:
    """A store that `open_` opens with the first call. Safe to share between threads.

    Lives as a LoopThread does.
    """

    def __init__(self, open_: Open) -> None:
        self._thread = LoopThread("foldlog-blocking", lambda: _Opened(open_))

    def call(self, use: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        """Do something with the open store, and return what that gives.

        An attempt to open it that fails, fails this call; the next one tries again.

        Raises:
            StoreClosed: it was closed. ConfigurationError: `use` would wait for itself.
            Others as `foldlog.connect` and `use`.
        """
        self._thread.check_caller()
        content = self._thread.content
        outcome = self._thread.hand_over(
            lambda loop: asyncio.run_coroutine_threadsafe(content.use(use), loop)
        )
        try:
            return outcome.result()
        finally:
            outcome.cancel()  # Ctrl-C while waiting; otherwise it has ended and this does nothing

    def close(self) -> None:
        """Close the store when the calls under way have ended. Idempotent.

        Raises:
            FoldlogError: closing it failed.
        """
        self._thread.close()


class _Opened:
    """The store, from its first use on. On the event loop only."""

    def __init__(self, open_: Open) -> None:
        self._open = open_
        self._store: Store | None = None
        self._opening = asyncio.Lock()
        self._calls: set[asyncio.Task[Any]] = set()

    async def use(self, use: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        call = asyncio.current_task()
        if call is not None:
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        async with self._opening:
            if self._store is None:
                self._store = await self._open()
        return await use(self._store)

    async def close(self) -> None:
        if self._calls:
            await asyncio.wait(self._calls)
        if self._store is not None:
            await self._store.close()
