"""A store on an event loop and a thread of its own: the one bridge for code that blocks."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, Self, TypeVar

from foldlog.blocking.loop_thread import LoopThread, wait
from foldlog.errors import StoreClosed
from foldlog.opening import Store

T = TypeVar("T")

_PATIENCE: Final = 2.0
"""Seconds that calls under way have to end when the store is closed."""


class StoreThread(LoopThread["_Opened"]):
    """A store that `connecting` opens with the first call. Threads may share it."""

    def __init__(self, connecting: Awaitable[Store]) -> None:
        super().__init__("foldlog-blocking", lambda: _Opened(connecting))

    def call(
        self,
        use: Callable[[Store], Coroutine[Any, Any, T]],
        context: contextvars.Context | None = None,
        *,
        until_closed: bool = False,
    ) -> T:
        """Do something with the open store, and return what that gives.

        An attempt to open it that fails, fails this call; the next one tries again.

        Args:
            context: in which it is done. None: in a copy of the caller's.
            until_closed: it may wait for ever, and ends when the store closes, without a wait.

        Raises:
            StoreClosed: it was closed. Misuse: `use` would wait for itself.
            Others as `foldlog.connect` and `use`.
        """
        self.check_caller()
        return wait(self.begin(use, context, until_closed=until_closed))

    def begin(
        self,
        use: Callable[[Store], Coroutine[Any, Any, T]],
        context: contextvars.Context | None = None,
        *,
        until_closed: bool = False,
    ) -> Future[T]:
        """As `call`, without waiting. Cancelling the future cancels what is done.

        Raises:
            StoreClosed: it was closed.
        """

        async def run(opened: _Opened) -> T:
            # Noted before anything is awaited, so that a close that was asked for later sees it.
            return await opened.noted(
                asyncio.create_task(opened.use(use), context=context), until_closed
            )

        return self.submit(run)


class _Opened:
    """The store, from its first use on. On the event loop only."""

    def __init__(self, connecting: Awaitable[Store]) -> None:
        self._connecting = connecting
        self._store: Store | None = None
        self._opening = asyncio.Lock()
        self._calls: set[asyncio.Task[Any]] = set()
        self._waiting: set[asyncio.Task[Any]] = set()
        """The calls that end when the store closes."""
        self._is_closing = False

    def noted(self, call: asyncio.Task[T], until_closed: bool) -> asyncio.Task[T]:
        """Return a call that `close` lets end, or ends."""
        calls = self._waiting if until_closed else self._calls
        calls.add(call)
        call.add_done_callback(calls.discard)
        return call

    async def use(self, use: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        try:
            async with self._opening:
                if self._store is None:
                    self._store = await self._connecting
            return await use(self._store)
        except asyncio.CancelledError:
            if self._is_closing:
                raise StoreClosed from None
            raise

    async def close(self) -> None:
        """Let calls under way end; those that wait for others to do something raise StoreClosed."""
        self._is_closing = True
        if self._calls:
            _, waiting = await asyncio.wait(self._calls, timeout=_PATIENCE)
            for call in waiting:
                call.cancel()
            if waiting:
                await asyncio.wait(waiting)
        if self._store is not None:
            await self._store.close()
        if self._waiting:
            await asyncio.wait(self._waiting)


class OnThread:
    """An object that owns a store on a thread."""

    def __init__(self, thread: StoreThread) -> None:
        self._thread = thread

    def close(self) -> None:
        """Close the store, when the calls under way have ended. Closing again does nothing.

        Raises:
            FoldlogError: closing it failed.
        """
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
