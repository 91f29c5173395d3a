"""Back-pressure: a bounded number of bytes that are queued or in flight."""

from __future__ import annotations

import asyncio
from collections import deque

from foldlog.errors import StoreClosed


class BackPressure:
    """Bytes that writers take and the write path gives back, first come, first served.

    What exceeds `limit` by itself is let in when nothing else is there. `used`: bytes taken now.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    def close(self) -> None:
        """Tell all who wait that they will not get in: StoreClosed."""
        while self._waiting:
            turn, _ = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(StoreClosed())

    def take(self, size: int) -> bool:
        """Take `size` bytes if they fit and nobody waits; return whether they were taken."""
        if self._waiting or (self.used and self.used + size > self._limit):
            return False
        self.used += size
        return True

    async def wait(self, size: int) -> None:
        """Take `size` bytes when it is this caller's turn. One who is cancelled took nothing.

        Raises:
            StoreClosed: that will not be.
        """
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, size))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(size)
            else:
                self._admit()
            raise

    def give(self, size: int) -> None:
        """Give `size` bytes back, and let in those who fit now."""
        self.used -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            turn, size = self._waiting[0]
            if not turn.done():
                if self.used and self.used + size > self._limit:
                    return
                self.used += size
                turn.set_result(None)
            self._waiting.popleft()
