"""A store on an event loop and thread of its own, for callers on any thread and event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from typing import TypeVar

from foldlog.blocking.loop_thread import LoopThread
from foldlog.errors import FoldlogError
from foldlog.integrations.penguiflow.failures import Report
from foldlog.integrations.penguiflow.line import Call, Line
from foldlog.opening import Store

T = TypeVar("T")


class Worker:
    """A `Line` for callers on any thread and event loop.

    Lives as a LoopThread does, and so ends with the process: PenguiFlow itself never closes a
    store.
    """

    def __init__(self, open_: Callable[[], Awaitable[Store]]) -> None:
        self._thread = LoopThread("foldlog-penguiflow", lambda: Line(open_))

    @property
    def _line(self) -> Line:
        return self._thread.content

    @property
    def degraded(self) -> Counter[str]:
        return self._line.degraded

    async def read(self, call: Call[T]) -> T:
        return await asyncio.wrap_future(self._thread.submit(lambda line: line.read(call)))

    async def write(self, call: Call[T], report: Report) -> T:
        outcome = self._begin(call)
        try:
            return await asyncio.shield(asyncio.wrap_future(outcome))
        except asyncio.CancelledError:
            outcome.add_done_callback(report.unheard)
            raise

    def begin(self, call: Call[None], report: Report) -> None:
        self._begin(call).add_done_callback(report.unheard)

    def at_once(self, call: Call[None], report: Report) -> Awaitable[None]:
        self._thread.check_caller()
        try:
            self._begin(call).result()
        except FoldlogError as error:
            if not report.swallows(error):
                raise
        return _Done()

    def stop(self) -> None:
        """Have it close and end, without waiting for that."""
        self._thread.stop()

    async def close(self) -> None:
        self._thread.stop()
        await asyncio.to_thread(self._thread.close)

    def _begin(self, call: Call[T]) -> Future[T]:
        """Begin a write, which nobody cancels."""

        async def write(line: Line) -> T:
            return await line.start(call)

        return self._thread.submit(write)


class _Done:
    """What has been done already, for those who await it all the same."""

    def __await__(self) -> Generator[None]:
        yield from ()
