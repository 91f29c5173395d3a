"""An event loop on a thread of its own, for callers on any thread and any event loop."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, Generic, TypeVar

from foldlog.errors import FoldlogError, Misuse, StoreClosed
from foldlog.opening.store import Closing
from foldlog.store.failures import log_failure

R = TypeVar("R")

_EXIT_PATIENCE: Final = 10.0
"""Seconds that the end of the process waits for what nobody closed."""


C = TypeVar("C", bound=Closing)
"""What lives on the thread: made anywhere, used and closed on its event loop."""


class LoopThread(Generic[C]):
    """Keeps `content`, which `make` makes, on an event loop that starts with the first call.

    The thread ends with `close` or `stop`, and in an orderly way with the process. A forked child
    has a content and, from its first call on, a thread of its own.
    """

    def __init__(self, name: str, make: Callable[[], C]) -> None:
        self._name = name
        self._make = make
        self._closed = False
        self._start_over()
        _all.add(self)

    def _start_over(self) -> None:
        """Be as before the first call, but for whether it is closed."""
        self.content = self._make()
        self._guard = threading.RLock()  # what the collector drops within it is closed by a call
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ending = asyncio.Event()
        self._failure: FoldlogError | None = None

    def hand_over(self, begin: Callable[[asyncio.AbstractEventLoop], R]) -> R:
        """Return what `begin` returns, which gives something to the event loop from this thread."""
        with self._guard:
            if self._closed:
                raise StoreClosed
            if self._loop is None:
                self._loop = self._start_thread()
            return begin(self._loop)

    def submit(self, use: Callable[[C], Coroutine[Any, Any, R]]) -> Future[R]:
        """Begin to use the content, in the order of the calls.

        Cancelling the future cancels what is done. Raises StoreClosed if it was closed.
        """
        content = self.content
        return self.hand_over(lambda loop: asyncio.run_coroutine_threadsafe(use(content), loop))

    def check_caller(self) -> None:
        """Raise Misuse on the thread itself: it would wait for itself for ever."""
        if threading.current_thread() is self._thread:
            raise Misuse(
                "a call that waits for the store's own thread comes from that thread: from a "
                "migration, or from an object that is being saved"
            )

    def stop(self, patience: float = 0.0) -> None:
        """Have the thread close its content and end; wait for it up to `patience` seconds."""
        with self._guard:
            if not self._closed and self._loop is not None:
                self._loop.call_soon_threadsafe(self._ending.set)
            self._closed = True
        if self._thread is not None and patience > 0:
            self._thread.join(patience)

    def close(self) -> None:
        """Stop, and wait until the thread has ended. Idempotent.

        Raises:
            Misuse: see `check_caller`.
            FoldlogError: closing the content failed.
        """
        self.check_caller()
        self.stop()
        if self._thread is not None:
            self._thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def leave_to_parent(self) -> None:
        """In a forked child: let go of what only the parent has a thread for."""
        if self._loop is not None:
            # Never finalised here: a finaliser would act on the parent's connections and selector.
            _the_parents.append((self._loop, self.content))
        self._start_over()

    def _start_thread(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._run, args=(loop,), name=self._name, daemon=True
        )
        self._thread.start()
        return loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        await self._ending.wait()
        try:
            await self.content.close()
        except FoldlogError as error:
            self._failure = error  # for `close`; where nobody closes, there is only the log
            log_failure("statestore_close_failed", "close", None, error)


def wait(outcome: Future[R]) -> R:
    """Return what comes of it. What interrupts the waiting, as Ctrl-C does, cancels it."""
    try:
        return outcome.result()
    finally:
        outcome.cancel()  # if it has ended, this does nothing


_all: Final[weakref.WeakSet[LoopThread[Any]]] = weakref.WeakSet()
_the_parents: Final[list[object]] = []


@atexit.register
def _stop_all() -> None:
    threads = list(_all)
    for thread in threads:
        thread.stop()
    for thread in threads:
        thread.stop(_EXIT_PATIENCE)


def _leave_to_parent() -> None:
    for thread in list(_all):
        thread.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
