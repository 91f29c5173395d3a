"""A store on an event loop and a thread of its own: the one bridge for code that blocks."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from foldlog.blocking.loop_thread import LoopThread
from foldlog.opening import Store

T = TypeVar("T")
Open = Callable[[], Awaitable[Store]]


class StoreThread:
    """A store that `open_` opens with the first call. Safe to share between threads.

    Lives as a LoopThread does.
    """

    def __init__(self, open_: Open) -> None:
        self._thread = LoopThread("foldlog-blocking", lambda: _Opened(open_))

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
            until_closed: it may wait for ever, and ends when the store closes: `close` does not
                wait for it.

        Raises:
            StoreClosed: it was closed. ConfigurationError: `use` would wait for itself.
            Others as `foldlog.connect` and `use`.
        """
        self._thread.check_caller()
        content, outcome = self._thread.content, Future[T]()

        def begin() -> None:
            task = asyncio.create_task(content.use(use, until_closed), context=context)
            task.add_done_callback(functools.partial(_hand_on, outcome))
            outcome.add_done_callback(functools.partial(_give_up, task))

        self._thread.hand_over(lambda loop: loop.call_soon_threadsafe(begin))
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
        self._waiting: set[asyncio.Task[Any]] = set()
        """The calls that end when the store closes."""

    async def use(
        self, use: Callable[[Store], Coroutine[Any, Any, T]], until_closed: bool = False
    ) -> T:
        calls, call = self._waiting if until_closed else self._calls, asyncio.current_task()
        if call is not None:
            calls.add(call)
            call.add_done_callback(calls.discard)
        async with self._opening:
            if self._store is None:
                self._store = await self._open()
        return await use(self._store)

    async def close(self) -> None:
        if self._calls:
            await asyncio.wait(self._calls)
        if self._store is not None:
            await self._store.close()
        if self._waiting:
            await asyncio.wait(self._waiting)


def _hand_on(outcome: Future[T], task: asyncio.Task[T]) -> None:
    if not outcome.set_running_or_notify_cancel():
        return
    if task.cancelled():
        outcome.set_exception(asyncio.CancelledError())
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


def _give_up(task: asyncio.Task[Any], outcome: Future[Any]) -> None:
    if outcome.cancelled():
        task.get_loop().call_soon_threadsafe(task.cancel)


class OnThread:
    """What has a store on a thread of its own, and ends it."""

    _thread: StoreThread

    def close(self) -> None:
        """Let go of the store, when the calls under way have ended. Idempotent.

        Raises:
            FoldlogError: closing it failed.
        """
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
