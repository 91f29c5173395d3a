"""The read path of one stream: direct get on literal subjects, complete to a known head.

With one replica whoever answers is the leader, so pages are read until the server says that
nothing is pending. With more, any replica may answer a direct get and may lag: the head then comes
from the leader first, and pages are asked for until it is reached.
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
from foldlog.errors import LogCorrupt, LogTimeout, LogUnavailable
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.connection import Connection, ReplyLost, status_of
from foldlog.log.jetstream.delivered import Delivered, delivered, is_chain
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

_LAG_PAUSE: Final = 0.02
"""Seconds to give a replica that lags behind the leader's head."""

_RETRY_PAUSE: Final = 0.05

_message_decoder = msgspec.json.Decoder(wire.MessageAnswer)
_description_decoder = msgspec.json.Decoder(wire.StreamDescription)


class Reader:
    """Reads one stream. Holds no resources of its own."""

    def __init__(
        self, connection: Connection, stream: str, gate: Gate, *, replicas: int, timeout: float
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._gate = gate
        self._replicas = replicas
        self._timeout = timeout

    async def read(
        self, subject: Subject, after: int, *, strong: bool
    ) -> AsyncGenerator[list[Record]]:
        """See the port."""
        await self._pass()
        deadline = time.monotonic() + self._timeout
        head: int | None = None
        if strong and self._replicas > 1:
            leader = await self._leaders_last(subject, deadline)
            head = leader.seq if leader else 0
            if not head and not after:
                await self._check_absence(subject, deadline)
        before, promised = after, 0
        while head is None or after < head:
            found, pending = await self._page(subject, after, deadline)
            if strong and head is None and not found and not after:
                await self._check_absence(subject, deadline)
            if self._replicas == 1 and len(found) + pending < promised:
                await self._check_promise(subject, before, after, deadline)
            if found:
                before, promised = after, pending
                after = found[-1].seq
                self._gate.seen(after)
                for number, part in enumerate(_parts(found)):
                    if number:
                        await asyncio.sleep(0)
                    yield [self._record(each.seq, each.time, each.data) for each in part]
                deadline = time.monotonic() + self._timeout  # each page has its own time
            if head is None and not pending:
                return
            if head is not None and not found:
                await self._pause(_LAG_PAUSE, deadline, "a replica to reach the leader's head")

    async def last(self, subject: Subject, *, strong: bool) -> Record | None:
        """See the port."""
        await self._pass()
        deadline = time.monotonic() + self._timeout
        if strong and self._replicas > 1:
            stored = await self._leaders_last(subject, deadline)
            if stored is None:
                await self._check_absence(subject, deadline)
                return None
            return self._record(stored.seq, stored.time, stored.data)
        payload = msgspec.json.encode({"last_by_subj": subject.name})
        while True:
            try:
                msg = await self._connection.request(
                    f"$JS.API.DIRECT.GET.{self._stream}", payload, timeout=_left(deadline)
                )
            except LogUnavailable as error:
                await self.retry(error, deadline)
                continue
            status = status_of(msg)
            if status == "404":
                if strong:
                    await self._check_absence(subject, deadline)
                return None
            if status:
                raise LogUnavailable(f"reading {subject.name}: {_described(msg)}")
            record = self.parse(msg)
            self._gate.seen(record.seq)
            return record

    async def _pass(self) -> None:
        if not self._gate.passes_reads:
            await self._gate.check_before_read()

    async def lasts(self, subjects: Sequence[Subject]) -> dict[Subject, Record]:
        """See the port."""
        await self._pass()
        names = {subject.name: subject for subject in subjects}
        request = {"multi_last": list(names), "batch": len(names), "max_bytes": _PAGE_BYTES}
        deadline = time.monotonic() + self._timeout
        found, _ = await self.collect(request, "many subjects", deadline)
        return {names[msg.subject]: self._record(msg.seq, msg.time, msg.data) for msg in found}

    async def last_upto(self, subject: Subject, upto: int) -> Record | None:
        """Return the last record up to a sequence, or None where `read` may still find one."""
        if upto < 1:
            return None
        await self._pass()
        if self._replicas == 1:
            request = {"multi_last": [subject.name], "up_to_seq": upto, "batch": 1}
            deadline = time.monotonic() + self._timeout
            found, _ = await self.collect(request, subject.name, deadline)
            if found:
                return self._record(found[0].seq, found[0].time, found[0].data)
            # The server finds nothing either where it has not come to that sequence yet.
            newest = await self.last(subject, strong=True)
            return newest if newest is not None and newest.seq <= upto else None
        # Any replica may answer the above, and does not say whether it has come so far.
        last: Record | None = None
        async with aclosing(self.read(subject, 0, strong=True)) as pages:
            async for records in pages:
                for record in records:
                    if record.seq > upto:
                        return last
                    last = record
        return last

    def parse(self, msg: Msg, *, previous: int | None = None) -> Record:
        """Return the record in a message that a direct get or a republish brought.

        Raises:
            LogCorrupt: it is no record.
        """
        headers = msg.headers or {}
        seq, time_ = int(headers["Nats-Sequence"]), headers["Nats-Time-Stamp"]
        return self._record(seq, time_, msg.data)._replace(previous=previous)

    def _record(self, seq: int, time_: str, data: bytes) -> Record:
        try:
            return Record(seq, unpack(data, seq, time_))
        except msgspec.MsgspecError as error:
            raise LogCorrupt(self._stream, seq, str(error)) from error

    async def _page(
        self, subject: Subject, after: int, deadline: float
    ) -> tuple[list[Delivered], int]:
        """What comes after `after`, and how much more the server says there is."""
        request = {
            "seq": after + 1,
            "next_by_subj": subject.name,
            "batch": _PAGE_MESSAGES if after else _FIRST_MESSAGES,
            "max_bytes": _PAGE_BYTES if after else _FIRST_BYTES,
        }
        return await self.collect(request, subject.name, deadline)

    async def collect(
        self, request: dict[str, object], what: str, deadline: float
    ) -> tuple[list[Delivered], int]:
        """Return the messages that a direct get of many brings, and how many come after them.

        `deadline` is of `time.monotonic()`. Errors as `read`.
        """
        payload = msgspec.json.encode(request)
        while True:
            try:
                *messages, end = await self._connection.collect(
                    f"$JS.API.DIRECT.GET.{self._stream}", payload, timeout=_left(deadline)
                )
            except LogTimeout:
                raise
            except LogUnavailable as error:
                await self.retry(error, deadline)
                continue
            status = status_of(end)
            if status == "404":
                return [], 0
            if status == "503":
                await self.retry(LogUnavailable(f"nobody serves {self._stream}"), deadline)
                continue
            if status != "204":
                raise LogUnavailable(f"reading {what}: {_described(end)}")
            found = [delivered(msg) for msg in messages]
            if not is_chain(found):
                # A reply of the page was lost on its way here; the log still has it.
                await self.retry(LogUnavailable("a page came with a gap"), deadline)
                continue
            pending = int((end.headers or {}).get("Nats-Num-Pending", "0"))
            return found, pending

    async def head(self, matching: str, deadline: float) -> int:
        """Return where the leader says that the stream ends, of what matches; 0 for nowhere."""
        last = await self._leaders_last(Subject(matching, 0, ()), deadline)
        return last.seq if last else 0

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
            await self._count(subject, deadline)
            and await self._leaders_last(subject, deadline) is None
            and await self._count(subject, deadline)
        ):
            raise LogCorrupt(self._stream, 0, f"{subject.name}: its records cannot be read")

    async def _count(self, subject: Subject, deadline: float) -> int:
        payload = msgspec.json.encode({"subjects_filter": subject.name})
        while True:
            try:
                msg = await self._connection.request(
                    f"$JS.API.STREAM.INFO.{self._stream}", payload, timeout=_left(deadline)
                )
            except LogUnavailable as error:
                await self.retry(error, deadline)
                continue
            answer = _description_decoder.decode(msg.data)
            if answer.error is None and not answer.is_leaderless:
                return answer.state.subjects.get(subject.name, 0)
            reason = answer.error.description if answer.error else "the stream has no leader"
            await self.retry(LogUnavailable(reason), deadline)

    async def _leaders_last(self, subject: Subject, deadline: float) -> wire.StoredMessage | None:
        return await self.leaders({"last_by_subj": subject.name}, deadline)

    async def leaders(
        self, request: dict[str, object], deadline: float
    ) -> wire.StoredMessage | None:
        """Return the one message that the leader has for a request, or None. Errors as `read`."""
        payload = msgspec.json.encode(request)
        while True:
            try:
                msg = await self._connection.request(
                    f"$JS.API.STREAM.MSG.GET.{self._stream}", payload, timeout=_left(deadline)
                )
            except LogUnavailable as error:
                await self.retry(error, deadline)
                continue
            answer = _message_decoder.decode(msg.data)
            if answer.error is None:
                return answer.message
            if answer.error.err_code == wire.NO_MESSAGE:
                return None
            await self.retry(LogUnavailable(answer.error.description), deadline)

    async def retry(self, error: LogUnavailable, deadline: float) -> None:
        """Wait for the connection and a moment more; a read may be asked again freely."""
        left = deadline - time.monotonic()
        if left <= _RETRY_PAUSE:
            raise LogUnavailable(str(error)) from error
        await self._connection.ready(left)
        if not isinstance(error, ReplyLost):
            await asyncio.sleep(_RETRY_PAUSE)

    async def _pause(self, seconds: float, deadline: float, what: str) -> None:
        if time.monotonic() + seconds > deadline:
            raise LogTimeout(f"waiting for {what}", self._timeout)
        await asyncio.sleep(seconds)


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


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.001)


def _described(msg: Msg) -> str:
    headers = msg.headers or {}
    return f"{headers.get('Status')} {headers.get('Description', '')}"
