"""The read path of one stream: direct get on literal subjects, complete to a known head.

With one replica whoever answers is the leader, so it is read until nothing follows. With more,
any replica may answer a direct get and may lag: the head then comes from the leader first, and
records are asked for until it is reached.

A direct get of many has the server first count what is pending, for which it loads every block
from there to the end of the stream; a direct get of one does not. So a subject with few records
far from the end is read one by one, everything else by pages.
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
from foldlog.log.jetstream.delivered import Delivered, delivered
from foldlog.log.jetstream.direct import DirectGets
from foldlog.log.jetstream.gate import Gate
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
"""Sequences to the end of the stream beyond which counting them costs more than another get."""

SEQUENCES_A_GET: Final = 4096
"""How many of those sequences the server counts in the time of a few gets, its blocks cold."""

_LAG_PAUSE: Final = 0.02
"""Seconds to give a replica that lags behind the leader's head."""

_DOUBTS: Final = 3
"""How often a subject is read again that has fewer records than were counted."""


class Reader:
    """Reads one stream. Holds no resources of its own."""

    def __init__(
        self, connection: Connection, stream: str, gate: Gate, *, replicas: int, timeout: float
    ) -> None:
        self._direct = DirectGets(connection, stream, gate)
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
        pages = await self._plan(subject, after, head, upto, deadline)
        async with aclosing(pages):
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
        if strong and self._replicas > 1:
            stored = await self._leaders_last(subject, deadline)
            if stored is not None:
                self._gate.seen(stored.seq)
                return self._unpacked(stored.seq, stored.time, stored.data)
        else:
            msg = await self._direct.one({"last_by_subj": subject.name}, deadline)
            if msg is not None:
                record = self.parse(msg)
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
            found, _ = await self._direct.many(request, self._deadline())
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

    def parse(self, msg: Msg, *, previous: int | None = None) -> Record:
        """Return the record in a message that a direct get or a republish brought.

        Raises:
            LogCorrupt: it is no record.
        """
        headers = msg.headers or {}
        seq, time_ = int(headers["Nats-Sequence"]), headers["Nats-Time-Stamp"]
        return self._unpacked(seq, time_, msg.data)._replace(previous=previous)

    # --- by pages -------------------------------------------------------------------------------

    async def _by_pages(
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
                await self._wait_for_replica(deadline)

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
        return await self._direct.many(request, deadline)

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

    # --- one by one -----------------------------------------------------------------------------

    async def _plan(
        self, subject: Subject, after: int, head: int | None, upto: int | None, deadline: float
    ) -> AsyncGenerator[Sequence[Delivered]]:
        """Return the pages of what follows `after`, in the way that costs the server less."""
        if self._gate.known - after <= LONG_TAIL:
            return self._by_pages(subject, after, head)
        if upto is not None:
            return self._one_by_one(subject, after, head, upto)
        if after:
            # Mostly nothing follows; the count of what does is how a gap would show.
            if head is None and await self._next(subject, after, deadline) is None:
                return _nothing()
            return self._by_pages(subject, after, head)
        first, count = await asyncio.gather(
            self._next(subject, 0, deadline), self._direct.count(subject.name, deadline)
        )
        tail = self._gate.known - (first.seq if first is not None else 0)
        if tail <= LONG_TAIL or count * SEQUENCES_A_GET > tail:
            return self._by_pages(subject, after, head)
        return self._one_by_one(subject, after, head, None, first=first, count=count)

    async def _one_by_one(
        self,
        subject: Subject,
        after: int,
        head: int | None,
        upto: int | None,
        *,
        first: Delivered | None = None,
        count: int = 0,
    ) -> AsyncGenerator[Sequence[Delivered]]:
        """Yield what follows `after`, up to `head` or `upto`; with neither until nothing does.

        `first`: what follows directly, where that is known. `count`: so many records were counted.

        Raises:
            LogCorrupt: there are fewer than that.
        """
        deadline, number, found = self._deadline(), 0, first
        while True:
            found = found or await self._next(subject, after, deadline)
            if found is not None:
                if upto is not None and found.seq > upto:
                    return
                number, after = number + 1, found.seq
                yield [found]
                if after in (head, upto):
                    break
                deadline, found = self._deadline(), None
            elif head is None or after >= head:
                break
            else:
                await self._wait_for_replica(deadline)
        if number < count and self._replicas == 1:
            await self._check_count(subject, deadline)

    async def _next(self, subject: Subject, after: int, deadline: float) -> Delivered | None:
        request = {"seq": after + 1, "next_by_subj": subject.name}
        msg = await self._direct.one(request, deadline)
        return None if msg is None else delivered(msg)

    async def _check_count(self, subject: Subject, deadline: float) -> None:
        """See why fewer records were found than were counted.

        Raises:
            LogCorrupt: nothing was purged meanwhile; the server skips what it cannot read.
        """
        last = 0
        for _ in range(_DOUBTS):
            before = await self._direct.count(subject.name, deadline)
            number = after = 0
            while (found := await self._next(subject, after, deadline)) is not None:
                number, after = number + 1, found.seq
            last = after
            if number >= min(before, await self._direct.count(subject.name, deadline)):
                return
        raise LogCorrupt(self._stream, last, f"{subject.name}: a record cannot be read")

    # --- whatever the way -----------------------------------------------------------------------

    async def _check_absence(self, subject: Subject, deadline: float) -> None:
        """See whether a subject that reads as empty is empty: the server skips what it cannot read.

        Raises:
            LogCorrupt: it counts records, before and after its leader has said that there is none.
        """
        if (
            await self._direct.count(subject.name, deadline)
            and await self._leaders_last(subject, deadline) is None
            and await self._direct.count(subject.name, deadline)
        ):
            raise LogCorrupt(self._stream, 0, f"{subject.name}: its records cannot be read")

    async def _leaders_last(self, subject: Subject, deadline: float) -> wire.StoredMessage | None:
        return await self._direct.leaders({"last_by_subj": subject.name}, deadline)

    async def _wait_for_replica(self, deadline: float) -> None:
        if time.monotonic() + _LAG_PAUSE > deadline:
            raise LogTimeout("waiting for a replica to reach the leader's head", self._timeout)
        await asyncio.sleep(_LAG_PAUSE)

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout

    def _record(self, found: Delivered) -> Record:
        return self._unpacked(found.seq, found.time, found.data)

    def _unpacked(self, seq: int, time_: str, data: bytes) -> Record:
        try:
            return Record(seq, unpack(data, seq, time_))
        except msgspec.MsgspecError as error:
            raise LogCorrupt(self._stream, seq, str(error)) from error


async def _nothing() -> AsyncGenerator[Sequence[Delivered]]:
    nothing: tuple[Sequence[Delivered], ...] = ()
    for page in nothing:
        yield page


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
