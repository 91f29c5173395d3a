"""The read path of one stream: direct gets on literal subjects, complete to a known head.

With one replica whoever answers is the leader, so it is read until nothing follows. With more,
any replica may answer a direct get and may lag: the head then comes from the leader first, and
records are asked for until it is reached.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Final

import msgspec
from nats.aio.msg import Msg

from foldlog.envelope import unpack
from foldlog.errors import LogCorrupt, LogTimeout
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.connection import Connection
from foldlog.log.jetstream.gate import Gate
from foldlog.log.jetstream.stream import Delivered, StreamClient
from foldlog.log.port import Record
from foldlog.subjects import Subject

_PAGE_MESSAGES: Final = 512
_PAGE_BYTES: Final = 1024 * 1024
"""A direct get has no flow control: what may be under way at once is bounded by the page."""

_PART_BYTES: Final = 128 * 1024
"""What is decoded and handed on before others have their turn: some of it is folded meanwhile."""

_FIRST_MESSAGES: Final = 128
_FIRST_BYTES: Final = 128 * 1024
"""A first page is smaller: most subjects end on it, and for the others there may be a snapshot."""

LONG_TAIL: Final = 32_768
"""Sequences to the end of the stream from which on one is asked for before a page.

For a page from the middle of a stream the server counts what is pending, and loads blocks for
that. Mostly nothing follows, which it knows without. From the beginning it counts for nothing.
"""

_LAG_PAUSE: Final = 0.02
"""Seconds to give a replica that lags behind the leader's head."""


class Reader:
    """Reads one stream. Holds no resources of its own."""

    def __init__(
        self, connection: Connection, stream: str, gate: Gate, *, replicas: int, timeout: float
    ) -> None:
        self._client = StreamClient(
            connection, stream, timeout=timeout, check=gate.check_before_read
        )
        self._stream = stream
        self._gate = gate
        self._replicas = replicas
        self._timeout = timeout

    async def read(
        self, subject: Subject, after: int, *, strong: bool, upto: int | None = None
    ) -> AsyncGenerator[list[Record]]:
        """See the port."""
        deadline = self._deadline()
        head: int | None = None
        if strong and self._replicas > 1:
            leader = await self._leaders_last(subject, deadline)
            head = leader.seq if leader else 0
            if not head and not after:
                await self._check_absence(subject, deadline)
            if head <= after:
                return
        elif after and self._gate.known - after > LONG_TAIL:
            following = {"seq": after + 1, "next_by_subj": subject.name}
            if await self._client.get(following, deadline) is None:
                return
        async with aclosing(self._pages(subject, after, head)) as pages:
            async for found in pages:
                self._gate.seen(found[-1].seq)
                if upto is None or found[-1].seq < upto:
                    yield [self._record(each) for each in found]
                    continue
                if found[0].seq <= upto:
                    yield [self._record(each) for each in found if each.seq <= upto]
                return

    async def last(self, subject: Subject, *, strong: bool) -> Record | None:
        """See the port."""
        deadline = self._deadline()
        found: Delivered | wire.StoredMessage | None
        if strong and self._replicas > 1:
            found = await self._leaders_last(subject, deadline)
        else:
            found = await self._client.get({"last_by_subj": subject.name}, deadline)
        if found is not None:
            record = self._record(found)
            self._gate.seen(record.seq)
            return record
        if strong:
            await self._check_absence(subject, deadline)
        return None

    async def last_upto(self, subject: Subject, upto: int) -> Record | None:
        """Return the last record up to a sequence, or None where `read` may still find one."""
        if upto < 1:
            return None
        if self._replicas == 1:
            request = {"multi_last": [subject.name], "up_to_seq": upto, "batch": 1}
            found, _ = await self._client.page(request, self._deadline())
            if found:
                return self._record(found[0])
            # The server finds nothing either where it has not come to that sequence yet.
            newest = await self.last(subject, strong=True)
            return newest if newest is not None and newest.seq <= upto else None
        # Any replica may answer the above, and does not say whether it has come so far.
        last: Record | None = None
        async with aclosing(self.read(subject, 0, strong=True, upto=upto)) as pages:
            async for records in pages:
                last = records[-1]
        return last

    def parse(self, msg: Msg, *, previous: int) -> Record:
        """Return the record in a message that a republish brought.

        Raises:
            LogCorrupt: it is no record.
        """
        headers = msg.headers or {}
        seq, stored = int(headers["Nats-Sequence"]), headers["Nats-Time-Stamp"]
        return self._unpacked(seq, stored, msg.data)._replace(previous=previous)

    async def _pages(
        self, subject: Subject, after: int, head: int | None
    ) -> AsyncGenerator[Sequence[Delivered]]:
        """Yield what follows `after`, up to `head`; None: until nothing is pending."""
        deadline = self._deadline()
        before, promised = after, 0
        while head is None or after < head:
            found, pending = await self._page(subject, after, deadline)
            if self._replicas == 1 and not found and not after:
                await self._check_absence(subject, deadline)
            if self._replicas == 1 and len(found) + pending < promised:
                await self._check_promise(subject, before, after, deadline)
            if found:
                before, promised = after, pending
                after = found[-1].seq
                for number, part in enumerate(_parts(found)):
                    if number:
                        await asyncio.sleep(0)
                    yield part
                deadline = self._deadline()  # each page has its own time
            if head is None and not pending:
                return
            if head is not None and not found:
                if time.monotonic() + _LAG_PAUSE > deadline:
                    what = "waiting for a replica to reach the leader's head"
                    raise LogTimeout(what, self._timeout)
                await asyncio.sleep(_LAG_PAUSE)

    async def _page(
        self, subject: Subject, after: int, deadline: float
    ) -> tuple[Sequence[Delivered], int]:
        """What comes after `after`, and how much more the server says there is."""
        request = {
            "seq": after + 1,
            "next_by_subj": subject.name,
            "batch": _PAGE_MESSAGES if after else _FIRST_MESSAGES,
            "max_bytes": _PAGE_BYTES if after else _FIRST_BYTES,
        }
        return await self._client.page(request, deadline)

    async def _check_promise(
        self, subject: Subject, before: int, after: int, deadline: float
    ) -> None:
        """See why less follows `after` than the page after `before` had said.

        Raises:
            LogCorrupt: nothing was purged meanwhile; the server skips what it cannot read.
        """
        found, promised = await self._page(subject, before, deadline)
        if not found or found[-1].seq != after:
            return
        found, pending = await self._page(subject, after, deadline)
        if len(found) + pending < promised:
            raise LogCorrupt(self._stream, after, f"{subject.name}: a record cannot be read")

    async def _check_absence(self, subject: Subject, deadline: float) -> None:
        """See whether a subject that reads as empty is empty: the server skips what it cannot read.

        Raises:
            LogCorrupt: it counts records, before and after its leader has said that there is none.
        """
        if (
            await self._client.subjects(subject.name, deadline)
            and await self._leaders_last(subject, deadline) is None
            and await self._client.subjects(subject.name, deadline)
        ):
            raise LogCorrupt(self._stream, 0, f"{subject.name}: its records cannot be read")

    async def _leaders_last(self, subject: Subject, deadline: float) -> wire.StoredMessage | None:
        return await self._client.message({"last_by_subj": subject.name}, deadline)

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout

    def _record(self, found: Delivered | wire.StoredMessage) -> Record:
        return self._unpacked(found.seq, found.time, found.data)

    def _unpacked(self, seq: int, stored: str, data: bytes) -> Record:
        try:
            return Record(seq, unpack(data, seq, stored))
        except msgspec.MsgspecError as error:
            raise LogCorrupt(self._stream, seq, str(error)) from error


def _parts(page: Sequence[Delivered]) -> Iterator[list[Delivered]]:
    """A page in parts of some size, in order."""
    part: list[Delivered] = []
    size = 0
    for each in page:
        part.append(each)
        size += len(each.data)
        if size >= _PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
