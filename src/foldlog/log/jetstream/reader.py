"""The read path of one stream: direct get on literal subjects, complete to a known head.

With one replica whoever answers is the leader, so pages are read until the server says that
nothing is pending. With more, any replica may answer a direct get and may lag: the head then comes
from the leader first, and pages are asked for until it is reached.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Final

import msgspec
from nats.aio.msg import Msg

from foldlog.envelope import unpack
from foldlog.errors import LogCorrupt, LogTimeout, LogUnavailable
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.connection import Connection, ReplyLost, status_of
from foldlog.log.port import Record
from foldlog.subjects import Subject

_PAGE_MESSAGES: Final = 512
_PAGE_BYTES: Final = 1024 * 1024
"""A direct get has no flow control: what may be under way at once is bounded by the page."""

_FIRST_MESSAGES: Final = 128
_FIRST_BYTES: Final = 128 * 1024
"""A first page is smaller: most subjects end on it, and for the others there may be a snapshot."""

_LAG_PAUSE: Final = 0.02
"""Seconds to give a replica that lags behind the leader's head."""

_RETRY_PAUSE: Final = 0.05

_message_decoder = msgspec.json.Decoder(wire.MessageAnswer)


class Reader:
    """Reads one stream. Holds no resources of its own."""

    def __init__(
        self, connection: Connection, stream: str, *, replicas: int, timeout: float
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._replicas = replicas
        self._timeout = timeout

    async def read(
        self, subject: Subject, after: int, *, strong: bool
    ) -> AsyncGenerator[list[Record]]:
        """See the port."""
        deadline = time.monotonic() + self._timeout
        head: int | None = None
        if strong and self._replicas > 1:
            leader = await self._leaders_last(subject, deadline)
            head = leader.seq if leader else 0
        before, promised = after, 0
        while head is None or after < head:
            records, pending = await self._page(subject, after, deadline)
            if self._replicas == 1 and len(records) + pending < promised:
                await self._check_promise(subject, before, after, deadline)
            if records:
                before, promised = after, pending
                after = records[-1].seq
                yield records
                deadline = time.monotonic() + self._timeout  # each page has its own time
            if head is None and not pending:
                return
            if head is not None and not records:
                await self._pause(_LAG_PAUSE, deadline, "a replica to reach the leader's head")

    async def last(self, subject: Subject, *, strong: bool) -> Record | None:
        """See the port."""
        deadline = time.monotonic() + self._timeout
        if strong and self._replicas > 1:
            stored = await self._leaders_last(subject, deadline)
            return self._record(stored.seq, stored.time, stored.data) if stored else None
        payload = msgspec.json.encode({"last_by_subj": subject.name})
        while True:
            try:
                msg = await self._connection.request(
                    f"$JS.API.DIRECT.GET.{self._stream}", payload, timeout=_left(deadline)
                )
            except LogUnavailable as error:
                await self._retry(error, deadline)
                continue
            status = status_of(msg)
            if status == "404":
                return None
            if status:
                raise LogUnavailable(f"reading {subject.name}: {_described(msg)}")
            return self.parse(msg)

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
    ) -> tuple[list[Record], int]:
        """The records after `after`, and how many more the server says there are."""
        payload = msgspec.json.encode(
            {
                "seq": after + 1,
                "next_by_subj": subject.name,
                "batch": _PAGE_MESSAGES if after else _FIRST_MESSAGES,
                "max_bytes": _PAGE_BYTES if after else _FIRST_BYTES,
            }
        )
        while True:
            try:
                *found, end = await self._connection.collect(
                    f"$JS.API.DIRECT.GET.{self._stream}", payload, timeout=_left(deadline)
                )
            except LogTimeout:
                raise
            except LogUnavailable as error:
                await self._retry(error, deadline)
                continue
            status = status_of(end)
            if status == "404":
                return [], 0
            if status == "503":
                await self._retry(LogUnavailable(f"nobody serves {self._stream}"), deadline)
                continue
            if status != "204":
                raise LogUnavailable(f"reading {subject.name}: {_described(end)}")
            if not _is_chain(found):
                # A reply of the page was lost on its way here; the log still has it.
                await self._retry(LogUnavailable("a page came with a gap"), deadline)
                continue
            pending = int((end.headers or {}).get("Nats-Num-Pending", "0"))
            return [self.parse(msg) for msg in found], pending

    async def _check_promise(
        self, subject: Subject, before: int, after: int, deadline: float
    ) -> None:
        """See why less follows `after` than the page after `before` had said.

        Raises:
            LogCorrupt: nothing was purged meanwhile; the server skips what it cannot read.
        """
        records, promised = await self._page(subject, before, deadline)
        if not records or records[-1].seq != after:
            return
        records, pending = await self._page(subject, after, deadline)
        if len(records) + pending < promised:
            raise LogCorrupt(self._stream, after, f"{subject.name}: a record cannot be read")

    async def _leaders_last(self, subject: Subject, deadline: float) -> wire.StoredMessage | None:
        payload = msgspec.json.encode({"last_by_subj": subject.name})
        while True:
            try:
                msg = await self._connection.request(
                    f"$JS.API.STREAM.MSG.GET.{self._stream}", payload, timeout=_left(deadline)
                )
            except LogUnavailable as error:
                await self._retry(error, deadline)
                continue
            answer = _message_decoder.decode(msg.data)
            if answer.error is None:
                return answer.message
            if answer.error.err_code == wire.NO_MESSAGE:
                return None
            await self._retry(LogUnavailable(answer.error.description), deadline)

    async def _retry(self, error: LogUnavailable, deadline: float) -> None:
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


def _is_chain(found: list[Msg]) -> bool:
    """Whether each message of a page names the one before it; the server starts with 0."""
    previous = "0"
    for msg in found:
        headers = msg.headers or {}
        if headers.get("Nats-Last-Sequence") != previous:
            return False
        previous = headers["Nats-Sequence"]
    return True


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.001)


def _described(msg: Msg) -> str:
    headers = msg.headers or {}
    return f"{headers.get('Status')} {headers.get('Description', '')}"
