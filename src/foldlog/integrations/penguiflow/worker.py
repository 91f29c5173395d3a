"""A store on an event loop and thread of its own, for callers on any thread and event loop."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from foldlog.errors import FoldlogError, StoreClosed
from foldlog.integrations.penguiflow.failures import Report
from foldlog.integrations.penguiflow.line import Call, Line
from foldlog.integrations.penguiflow.opening import StandBy
from foldlog.store import Store
from foldlog.store.failures import log_failure

R = TypeVar("R")
T = TypeVar("T")

_EXIT_PATIENCE: Final = 10.0
"""Seconds that the end of the process waits for stores that nobody closed."""


class Worker:
    """A `Line` for callers on any thread and event loop.

    The thread starts with the first call. It ends with `close` or `stop`, and with the process:
    PenguiFlow itself never closes a store. A forked child has a thread and a store of its own
    from its first call on.
    """

    def __init__(
        self, open_: Callable[[], Awaitable[Store]], stand_by: StandBy | None = None
    ) -> None:
        self._open = open_
        self._stand_by = stand_by
        self._closed = False
        self.start_over()
        _workers.add(self)

    def start_over(self) -> None:
        """Be as before the first call, but for whether it is closed."""
        self._line = Line(self._open, self._stand_by)
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ending = asyncio.Event()
        self._failure: FoldlogError | None = None

    @property
    def degraded(self) -> Counter[str]:
        return self._line.degraded

    async def read(self, call: Call[T]) -> T:
        reading = self._on_loop(
            lambda loop: asyncio.run_coroutine_threadsafe(self._line.read(call), loop)
        )
        return await asyncio.wrap_future(reading)

    async def write(self, call: Call[T], report: Report) -> T:
        outcome = self._begin(call)
        try:
            return await asyncio.wrap_future(outcome)
        except asyncio.CancelledError:
            outcome.add_done_callback(report.unheard)
            raise

    def begin(self, call: Call[None], report: Report) -> None:
        self._begin(call).add_done_callback(report.unheard)

    def at_once(self, call: Call[None], report: Report) -> Awaitable[None]:
        try:
            self._begin(call).result()
        except FoldlogError as error:
            if not report.swallows(error):
                raise
        return _Done()

    async def close(self) -> None:
        self.stop()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
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
            _the_parents.append((self._loop, self._line))
        self.start_over()

    def _begin(self, call: Call[T]) -> Future[T]:
        """Begin a write. Who waits for the outcome and is cancelled does not cancel the outcome."""
        outcome: Future[T] = Future()
        outcome.set_running_or_notify_cancel()  # from now on `cancel` does nothing to it
        self._on_loop(lambda loop: loop.call_soon_threadsafe(self._start, call, outcome))
        return outcome

    def _start(self, call: Call[Any], outcome: Future[Any]) -> None:
        try:
            task = self._line.start(call)
        except StoreClosed as error:
            outcome.set_exception(error)
        else:
            task.add_done_callback(lambda ended: _pass_on(ended, outcome))

    def _on_loop(self, hand_over: Callable[[asyncio.AbstractEventLoop], R]) -> R:
        with self._guard:
            if self._closed:
                raise StoreClosed
            if self._loop is None:
                self._loop = self._start_thread()
            return hand_over(self._loop)

    def _start_thread(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._run, args=(loop,), name="foldlog-penguiflow", daemon=True
        )
        self._thread.start()
        return loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        await self._ending.wait()
        try:
            await self._line.close()
        except FoldlogError as error:
            self._failure = error  # for `close`; where nobody closes, there is only the log
            log_failure("statestore_close_failed", "close", None, error)


def _pass_on(ended: asyncio.Task[Any], outcome: Future[Any]) -> None:
    if ended.cancelled():  # with its event loop
        outcome.set_exception(StoreClosed())
    elif (error := ended.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(ended.result())


class _Done:
    """What has been done already, for those who await it all the same."""

    def __await__(self) -> Generator[None]:
        yield from ()


_workers: Final[weakref.WeakSet[Worker]] = weakref.WeakSet()
_the_parents: Final[list[object]] = []


@atexit.register
def _stop_workers() -> None:
    workers = list(_workers)
    for worker in workers:
        worker.stop()
    for worker in workers:
        worker.stop(_EXIT_PATIENCE)


def _leave_to_parent() -> None:
    for worker in list(_workers):
        worker.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
