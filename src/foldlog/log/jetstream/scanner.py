"""Reading a whole stream in order, whatever the subject: for rebuilding and verifying.

A direct get on a literal subject looks at every message of the blocks in which that subject stands,
so that reading all subjects one by one looks at each block once for each of them.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
from collections.abc import AsyncGenerator
from typing import Final

from foldlog.errors import LogCorrupt, LogTimeout, LogUnavailable
from foldlog.log.jetstream.consumer import ConsumerRead
from foldlog.log.jetstream.requests import retry
from foldlog.log.jetstream.stream import StreamClient
from foldlog.log.port import Stored

_LAG_PAUSE: Final = 0.02
"""Seconds to give a replica that lags behind the leader's head."""

_DOUBTS: Final = (0.1, 0.3, 1.0)
"""Seconds after which a count that says more than was delivered is asked again."""

_log: Final = logging.getLogger("foldlog")

_FIRST_TIME: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LAST_TIME: Final = dt.datetime(2262, 1, 1, tzinfo=dt.UTC)
"""The server counts nanoseconds in 64 bits, and takes a time beyond them for another."""


class Scanner:
    """Scans one stream, whatever it may have lost. Holds no resources of its own.

    Args:
        everything: the filter that all of the stream's subjects match.
    """

    def __init__(self, client: StreamClient, everything: str) -> None:
        self._client = client
        self._everything = everything

    async def scan(self, after: int) -> AsyncGenerator[list[Stored]]:
        """See the port. While one page is looked at, the next is on its way."""
        begun, found = after, 0
        head = await self._head()
        reading: ConsumerRead | None = None

        async def next_page(timeout: float) -> list[Stored]:
            nonlocal reading
            reading = reading or await ConsumerRead.begin(self._client, after)
            try:
                return await reading.page()
            except LogUnavailable:
                ended, reading = reading, None
                await ended.close()
                raise

        deadline = self._deadline()
        try:
            while after < head:
                stored = await retry(self._client.connection, next_page, deadline)
                if stored:
                    after = stored[-1].seq
                    found += len(stored)
                    yield stored
                    deadline = self._deadline()
                    continue
                # Purged meanwhile, or not known yet to the replica that reads.
                if time.monotonic() > deadline:
                    what = "waiting for a replica to reach the head"
                    raise LogTimeout(what, self._client.timeout)
                head = min(head, await self._head())
                await asyncio.sleep(_LAG_PAUSE)
        finally:
            if reading is not None:
                await reading.close()
        await self._check_whole(begun, after, found)

    async def newest(self, matching: str) -> AsyncGenerator[list[Stored]]:
        """See the port; `matching` is the filter over a branch."""
        reading = await ConsumerRead.over_newest(self._client, matching)
        try:
            while stored := await reading.page():
                yield stored
        except LogUnavailable as error:
            # Whoever takes hints asks for what did not come.
            _log.info("reading %s: %s", matching, error)
        finally:
            await reading.close()

    async def stored(self, seq: int) -> Stored | None:
        """See the port."""
        if seq < 1:
            return None
        found = await self._client.message({"seq": seq})
        return None if found is None else Stored(found.subject, found.seq, found.time, found.data)

    async def sequence_at(self, moment: dt.datetime) -> int:
        """See the port."""
        # The head first: what comes after it is of a later time, too.
        head = await self._head()
        since = max(_FIRST_TIME, min(moment, _LAST_TIME)).astimezone(dt.UTC)
        since += dt.timedelta(microseconds=1)
        later = await self._client.message(
            {"start_time": since.isoformat(), "next_by_subj": self._everything}
        )
        return head if later is None else min(head, later.seq - 1)

    async def _head(self) -> int:
        """Where the stream ends, by its leader."""
        last = await self._client.message({"last_by_subj": self._everything})
        return 0 if last is None else last.seq

    def _deadline(self) -> float:
        return time.monotonic() + self._client.timeout

    async def _check_whole(self, begun: int, after: int, found: int) -> None:
        """See whether the server counts more between two sequences than it has delivered.

        It skips what it cannot read. What is purged makes its count smaller, so that a count that
        is larger is none of that.

        Raises:
            LogCorrupt: it does.
        """
        lacking = await self._counted(begun, after) - found
        for pause in _DOUBTS:
            if lacking <= 0:
                return
            # Each of the two ends is counted by some replica: the second may not know yet what the
            # first does, and what comes after both may be purged in between.
            await asyncio.sleep(pause)
            lacking = min(lacking, await self._counted(begun, after) - found)
        if lacking > 0:
            raise LogCorrupt(
                self._client.name, after, f"{lacking} records before it cannot be read"
            )

    async def _counted(self, begun: int, after: int) -> int:
        """How many messages there are between two sequences, by the server's count."""
        return await self._pending(begun) - await self._pending(after)

    async def _pending(self, after: int) -> int:
        async def attempt(timeout: float) -> ConsumerRead:
            return await ConsumerRead.begin(self._client, after)

        reading = await retry(self._client.connection, attempt, self._deadline())
        await reading.close()
        return reading.pending
