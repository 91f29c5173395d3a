"""What appends stand on: a log that holds, over a new connection, what it held before.

A server that was away may come back with less, from a backup for instance. What is appended then
takes sequences that others have read before, so it has to be noticed first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from foldlog.errors import LogUnavailable
from foldlog.log.jetstream.connection import Connection, ReplyLost

Prove = Callable[[], Awaitable[None]]
"""Looks whether the log holds what it is known to have held. Raises LogRewound if it does not, and
LogUnavailable where nobody says.
"""

_PATIENCE: Final = 1.5
"""Seconds before it is asked again, where a stream has no leader yet and nobody answers at all.
Twice as long each time, up to _LONGEST: a server with much to do may take its time.
"""

_LONGEST: Final = 12.0

_PATIENCE_A_SHARD: Final = 0.01
"""Seconds more for each, so that a log of many is looked at to its end."""


class Footing:
    """Is unsure whenever the connection was made again, until `check` has returned."""

    def __init__(self, connection: Connection, prove: Prove, *, shards: int = 1) -> None:
        self._connection = connection
        self._prove = prove
        self._patience = self._first = _PATIENCE + shards * _PATIENCE_A_SHARD
        self._proven = connection.reconnects

    @property
    def is_sure(self) -> bool:
        """Whether nothing can have happened to the log since it was looked at."""
        return self._connection.reconnects == self._proven

    async def check(self, timeout: float) -> None:
        """Look at the log, for `timeout` seconds at most.

        Raises:
            LogRewound: it has lost something. LogUnavailable: nobody said in time.
        """
        connection = self._connection.reconnects
        try:
            async with asyncio.timeout(min(timeout, self._patience)):
                await self._prove()
        except (ReplyLost, TimeoutError) as silence:
            self._patience = min(self._patience * 2, max(_LONGEST, self._first))
            # Not a ReplyLost any more: nothing was published whose outcome it could leave open.
            raise LogUnavailable(f"what it holds was not looked at: {silence!r}") from silence
        self._proven = connection
        self._patience = self._first
