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
from foldlog.log.jetstream.connection import Connection
from foldlog.log.jetstream.consumer import ConsumerRead
from foldlog.log.jetstream.direct import DirectGets
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

    def __init__(
        self,
        connection: Connection,
        direct: DirectGets,
        everything: str,
        *,
        timeout: float,
    ) -> None:
        self._connection = connection
        self._direct = direct
        self._stream = direct.stream
        self._everything = everything
        self._timeout = timeout

    async def scan(self, after: int) -> AsyncGenerator[list[Stored]]:
        """See the port. While one page is looked at, the next is on its way."""
        begun, found = after, 0
        head = await self._head()
        deadline = time.monotonic() + self._timeout
        reading = await self._begin(after, deadline)
        page = asyncio.create_task(reading.page(), name="foldlog scan")
        try:
            while after < head:
                try:
                    stored = await page
                except LogUnavailable as error:
                    await self._direct.retry(error, deadline)
                    reading = await self._begin(after, deadline)
                    page = asyncio.create_task(reading.page(), name="foldlog scan")
                    continue
                if not stored:
                    # Purged meanwhile, or not known yet to the replica that reads.
                    if time.monotonic() > deadline:
                        raise LogTimeout("waiting for a replica to reach the head", self._timeout)
                    head = min(head, await self._head())
                    if after < head:
                        await asyncio.sleep(_LAG_PAUSE)
                        page = asyncio.create_task(reading.page(), name="foldlog scan")
                    continue
                after = stored[-1].seq
                found += len(stored)
                if after < head:
                    page = asyncio.create_task(reading.page(), name="foldlog scan")
                yield stored
                deadline = time.monotonic() + self._timeout
        finally:
            page.cancel()
            await asyncio.gather(page, return_exceptions=True)
            await reading.close()
        await self._check_whole(begun, after, found)

    async def newest(self, matching: str) -> AsyncGenerator[list[Stored]]:
        """See the port; `matching` is the filter over a branch."""
        reading = await ConsumerRead.over_newest(
            self._connection, self._stream, matching, timeout=self._timeout
        )
        page = asyncio.create_task(reading.page(), name="foldlog scan")
        try:
            while stored := await page:
                page = asyncio.create_task(reading.page(), name="foldlog scan")
                yield stored
        except LogUnavailable as error:
            # Whoever takes hints asks for what did not come.
            _log.info("reading %s: %s", matching, error)
        finally:
            page.cancel()
            await asyncio.gather(page, return_exceptions=True)
            await reading.close()

    async def stored(self, seq: int) -> Stored | None:
        """See the port."""
        if seq < 1:
            return None
        found = await self._direct.leaders({"seq": seq}, time.monotonic() + self._timeout)
        return None if found is None else Stored(found.subject, found.seq, found.time, found.data)

    async def sequence_at(self, moment: dt.datetime) -> int:
        """See the port."""
        deadline = time.monotonic() + self._timeout
        # The head first: what comes after it is of a later time, too.
        head = await self._head(deadline)
        since = max(_FIRST_TIME, min(moment, _LAST_TIME)).astimezone(dt.UTC)
        since += dt.timedelta(microseconds=1)
        later = await self._direct.leaders(
            {"start_time": since.isoformat(), "next_by_subj": self._everything}, deadline
        )
        return head if later is None else min(head, later.seq - 1)

    async def _head(self, deadline: float | None = None) -> int:
        """Where the stream ends, by its leader."""
        deadline = deadline or time.monotonic() + self._timeout
        last = await self._direct.leaders({"last_by_subj": self._everything}, deadline)
        return 0 if last is None else last.seq

    async def _begin(self, after: int, deadline: float) -> ConsumerRead:
        while True:
            try:
                return await ConsumerRead.begin(
                    self._connection, self._stream, after, timeout=self._timeout
                )
            except LogUnavailable as error:
                await self._direct.retry(error, deadline)

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
            raise LogCorrupt(self._stream, after, f"{lacking} records before it cannot be read")

    async def _counted(self, begun: int, after: int) -> int:
        """How many messages there are between two sequences, by the server's count."""
        deadline = time.monotonic() + self._timeout
        first = await self._begin(begun, deadline)
        last = await self._begin(after, deadline)
        await asyncio.gather(first.close(), last.close())
        return first.pending - last.pending
