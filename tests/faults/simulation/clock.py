"""An event loop whose time passes only when nobody has anything to do.

Hours take milliseconds, and the same program does the same in the same order each time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from unittest.mock import patch

T = TypeVar("T")

EPOCH = 1_700_000_000.0
"""What the wall clock says when a run begins, in Unix seconds."""


class Stuck(Exception):
    """Everybody waits, and nothing is going to happen."""


class _NothingToSelect:
    """Stands where the loop waits for sockets: it waits for nothing, and time has passed."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck
        self._loop.passed += timeout
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """Virtual time, no sockets. `problems`: what tasks and futures left behind."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0
        self.problems: list[str] = []
        self._selector = _NothingToSelect(self)
        self.set_exception_handler(self._note)

    def time(self) -> float:
        return self.passed

    def _process_events(self, events: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.problems.append(f"{context['message']}: {context.get('exception')!r}")


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Run `main` to its end. Clocks that a library reads show the loop's time."""
    loop = VirtualLoop()
    with (
        patch.object(time, "monotonic", loop.time),
        patch.object(time, "perf_counter", loop.time),
        patch.object(time, "time", lambda: EPOCH + loop.passed),
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        return runner.run(main(loop))
