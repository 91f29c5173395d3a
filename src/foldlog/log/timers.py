"""Timers beside the log: bytes that come back at a time, to one of those who wait for them.

A timer is a hint, as a push is: it may come late, or twice. What it is about stands in the log, and
says whether anything is due. A timer is armed before the record that needs it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

AGAIN_SECONDS: Final = 10.0
"""What was handed out and is not done by then is handed out again."""

AT_ONCE: Final = 256
"""Timers that are handed out together, at most."""


class Due(NamedTuple):
    """A timer whose time has come: its bytes, and by what it is known until it is done."""

    data: bytes
    token: str


class Timers(Protocol):
    """The timers of a namespace. The log that they belong to closes them.

    Every method raises LogUnavailable if nobody answers.
    """

    async def arm(self, key: str, at: float, data: bytes) -> None:
        """Have bytes come back at a time, in Unix seconds; at once, where that has passed.

        A key has one timer: arming it again replaces the one before.
        """

    async def due(self, wait: float) -> list[Due]:
        """Return timers whose time has come; wait up to so many seconds for the first one."""

    async def done(self, due: Sequence[Due]) -> None:
        """Have these not come back again."""


class MemoryTimers:
    """Timers that last as long as the object."""

    def __init__(self) -> None:
        self._armed: dict[str, tuple[float, bytes]] = {}
        self._given: dict[str, tuple[float, bytes]] = {}
        self._moved = asyncio.Event()

    async def arm(self, key: str, at: float, data: bytes) -> None:
        await asyncio.sleep(0)  # a server is never reached without giving way
        self._armed[key] = at, data
        self._moved.set()

    async def due(self, wait: float) -> list[Due]:
        gives_up = time.time() + wait
        while True:
            self._moved.clear()
            now = time.time()
            for key, (at, data) in list(self._given.items()):
                if at <= now:
                    del self._given[key]
                    self._armed.setdefault(key, (at, data))
            found = [key for key, (at, _) in self._armed.items() if at <= now][:AT_ONCE]
            if found or now >= gives_up:
                due = [Due(self._armed.pop(key)[1], key) for key in found]
                self._given |= {each.token: (now + AGAIN_SECONDS, each.data) for each in due}
                return due
            times = [at for at, _ in (*self._armed.values(), *self._given.values())]
            with suppress(TimeoutError):
                async with asyncio.timeout(min([*times, gives_up]) - now):
                    await self._moved.wait()

    async def done(self, due: Sequence[Due]) -> None:
        await asyncio.sleep(0)
        for each in due:
            self._given.pop(each.token, None)
