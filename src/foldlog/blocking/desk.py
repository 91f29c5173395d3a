"""A thread that waits for the store's thread, and does on the way what is asked of it there."""

from __future__ import annotations

import asyncio
import contextvars
import queue
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

_Work = Callable[[], None]


class Desk:
    """Where a coroutine has a plain function called by the thread that waits for it."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()

    async def ask(self, function: Callable[[], T]) -> T:
        """Have the waiting thread call a function, in this context; return what it returns."""
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        outcome: asyncio.Future[T] = loop.create_future()

        def settle(set_it: Callable[[Any], None], value: Any) -> None:
            if not outcome.done():  # who asked may have given up
                set_it(value)

        def work() -> None:
            try:
                result = context.run(function)
            except Exception as error:  # noqa: BLE001 - it is raised where it was asked for
                loop.call_soon_threadsafe(settle, outcome.set_exception, error)
            except BaseException:
                loop.call_soon_threadsafe(outcome.cancel)
                raise
            else:
                loop.call_soon_threadsafe(settle, outcome.set_result, result)

        self._work.put(work)
        return await outcome

    @contextmanager
    def served(self, outcome: Future[T]) -> Iterator[Future[T]]:
        """Do what is asked until there is an outcome, and give it."""
        outcome.add_done_callback(lambda _: self._work.put(None))
        try:
            while (work := self._work.get()) is not None:
                work()
            yield outcome
        finally:
            outcome.cancel()  # an interrupt came; otherwise it has ended and this does nothing
