"""A store for callers that block: on an event loop and a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from foldlog.errors import FoldlogError, StoreClosed
from foldlog.store import Store

T = TypeVar("T")

_EXIT_PATIENCE: Final = 10.0
"""Seconds that the end of the process waits for stores that nobody closed."""


class BlockingStore:
    """A store that `open_` opens with the first call. Safe to share between threads.

    The thread ends with `close`, and with the process. A forked child has a thread and a store of
    its own from its first call on.
    """

    def __init__(self, open_: Callable[[], Awaitable[Store]]) -> None:
        self._open = open_
        self._closed = False
        self.start_over()
        _all.add(self)

    def start_over(self) -> None:
        """Be as before the first call, but for whether it is closed."""
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._store: Store | None = None
        self._opening = asyncio.Lock()
        self._ending = asyncio.Event()
        self._calls: set[asyncio.Task[Any]] = set()
        self._failure: FoldlogError | None = None

    def call(self, use: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        """Do something with the open store, and return what that gives.

        An attempt to open it that fails, fails this call; the next one tries again.

        Raises:
            StoreClosed: it was closed. Others as `foldlog.connect` and `use`.
        """
        with self._guard:
            if self._closed:
                raise StoreClosed
            if self._loop is None:
                self._loop = self._start_thread()
            outcome = asyncio.run_coroutine_threadsafe(self._use(use), self._loop)
        try:
            return outcome.result()
        finally:
            outcome.cancel()  # Ctrl-C while waiting; otherwise it has ended and this does nothing

    def close(self) -> None:
        """Close the store when the calls under way have ended. Idempotent.

        Raises:
            FoldlogError: closing it failed.
        """
        self.stop()
        if self._thread is not None:
            self._thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def stop(self, patience: float = 0.0) -> None:
        """Have the thread close the store and end; wait for it up to `patience` seconds."""
        with self._guard:
            if not self._closed and self._loop is not None:
                self._loop.call_soon_threadsafe(self._ending.set)
            self._closed = True
        if self._thread is not None and patience > 0:
            self._thread.join(patience)

    def leave_to_parent(self) -> None:
        """In a forked child: let go of what only the parent has a thread for."""
        if self._loop is not None:
            # Never finalised here: a finaliser would act on the parent's connections and selector.
            _the_parents.append((self._loop, self._store))
        self.start_over()

    async def _use(self, use: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        call = asyncio.current_task()
        if call is not None:
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        async with self._opening:
            if self._store is None:
                self._store = await self._open()
        return await use(self._store)

    def _start_thread(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._run, args=(loop,), name="foldlog-blocking", daemon=True
        )
        self._thread.start()
        return loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        await self._ending.wait()
        if self._calls:
            await asyncio.wait(self._calls)
        if self._store is not None:
            try:
                await self._store.close()
            except FoldlogError as error:
                self._failure = error  # for `close`


_all: Final[weakref.WeakSet[BlockingStore]] = weakref.WeakSet()
_the_parents: Final[list[object]] = []


@atexit.register
def _stop_all() -> None:
    stores = list(_all)
    for store in stores:
        store.stop()
    for store in stores:
        store.stop(_EXIT_PATIENCE)


def _leave_to_parent() -> None:
    for store in list(_all):
        store.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
