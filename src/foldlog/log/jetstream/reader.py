"""The read path of one stream: direct gets on literal subjects, complete to a known head.

With one replica a subject is read until nothing is pending. With more, the replica that answers may
lag: the head then comes from the leader first, and records are asked for until it is reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

import msgspec
from nats.aio.msg import Msg

from foldlog.errors import LogCorrupt, LogTimeout, LogUnavailable
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.asking import LAG_PAUSE
from foldlog.log.jetstream.client import Incoming
from foldlog.log.jetstream.connection import Connection, status_of
from foldlog.log.jetstream.gate import Gate
from foldlog.log.jetstream.scanner import scan
from foldlog.log.jetstream.server_details import NO_RESULTS, STORED_HEADERS
from foldlog.log.jetstream.stream import StreamClient
from foldlog.log.port import Record, Stored
from foldlog.subjects import Branch, Subject

_PAGE_MESSAGES: Final = 512
_PAGE_BYTES: Final = 1024 * 1024
"""A direct get has no flow control: what may be under way at once is bounded by the page."""

_PART_BYTES: Final = 128 * 1024
"""What is decoded and handed on before others have their turn: some of it is folded meanwhile."""

_FIRST_MESSAGES: Final = 128
_FIRST_BYTES: Final = 128 * 1024
"""A first page is smaller: most subjects end on it, and for the others there may be a snapshot."""

LONG_TAIL: Final = 32_768
"""Sequences to the end of the stream from which on one record is asked for before a page.

For a page from the middle of a stream the server counts what is pending, and loads blocks for
that. Mostly nothing follows, which it knows without. From the beginning it counts for nothing.
"""


class Reader(StreamClient):
    """Reads the subjects of one stream, once its gate lets reads pass."""

    def __init__(
        self, connection: Connection, stream: str, gate: Gate, *, replicas: int, timeout: float
    ) -> None:
        super().__init__(connection, stream, timeout=timeout, check=gate.check_before_read)
        self._gate = gate
        self._replicas = replicas

    async def read(
        self, subject: Subject | Branch, after: int, *, strong: bool
    ) -> AsyncGenerator[list[Record]]:
        """See `Log.read`."""
        asking = self.asking()
        head: int | None = None
        following = {"seq": after + 1, "next_by_subj": subject.name}
        if strong and self._replicas > 1:
            # Where a branch ends the server looks for block by block; where it goes on it knows.
            is_branch = isinstance(subject, Branch) and after > 0
            if is_branch and await self.message(following, asking.deadline) is None:
                return
            leader = await self.last_of(subject.name, asking.deadline)
            head = leader.seq if leader else 0
        elif (
            after
            and self._gate.known - after > LONG_TAIL
            and await self._get(following, asking.deadline) is None
        ):
            return
        before, promised = after, 0
        while head is None or after < head:
            found, pending = await self._page(subject, after, asking.deadline)
            if self._replicas == 1 and len(found) + pending < promised:
                await self._check_promise(subject, before, after, asking.deadline)
            if found:
                before, promised = after, pending
                after = found[-1].seq
                async for records in self._in_parts(found):
                    yield records
                if isinstance(subject, Branch) and pending > _PAGE_MESSAGES:
                    async with aclosing(scan(self, "", after, only=[subject.name])) as pages:
                        async for page in pages:
                            async for records in self._in_parts(page):
                                yield records
                    return
                asking = self.asking()  # each page has its own time
            if head is None and not pending:
                break
            if head is not None and not found:
                await asking.again(LogTimeout("waiting for a replica", self.timeout), LAG_PAUSE)
        if not after and (strong or self._replicas == 1):
            await self._check_absence(subject, asking.deadline)

    async def are_absent(self, subjects: Sequence[Subject]) -> bool:
        """See `Log.are_absent`. A replica may lag: then it cannot tell."""
        names = [each.name for each in subjects]
        return self._replicas == 1 and await self._has_no_last(names, self.asking().deadline)

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        """See `Log.last`."""
        if upto is not None:
            return await self._last_upto(subject, upto)
        deadline = self.asking().deadline
        if strong and self._replicas > 1:
            found = await self.last_of(subject.name, deadline)
        else:
            found = await self._get({"last_by_subj": subject.name}, deadline)
        if found is not None:
            record = found.record()
            self._gate.seen(record.seq)
            return record
        if strong:
            await self._check_absence(subject, deadline)
        return None

    async def _last_upto(self, subject: Subject, upto: int) -> Record | None:
        if upto < 1:
            return None
        if self._replicas == 1:
            request = {"multi_last": [subject.name], "up_to_seq": upto, "batch": 1}
            found, _ = await self._collect(request, self.asking().deadline)
            if found:
                return found[0].record()
            # The server finds nothing either where it has not come to that sequence yet.
            newest = await self.last(subject)
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

    async def _in_parts(self, page: list[Stored]) -> AsyncGenerator[list[Record]]:
        """Yield a page decoded, in parts: others have their turn in between."""
        start = size = 0
        for end, stored in enumerate(page, 1):
            size += len(stored.data)
            if size < _PART_BYTES and end < len(page):
                continue
            if start:
                await asyncio.sleep(0)
            self._gate.seen(stored.seq)
            yield [each.record() for each in page[start:end]]
            start, size = end, 0

    async def _check_promise(
        self, subject: Subject | Branch, before: int, after: int, deadline: float
    ) -> None:
        """Raise LogCorrupt if less follows `after` than the page after `before` said.

        The server skips what it cannot read. A purge in between is no loss, so both are asked anew.
        """
        found, promised = await self._page(subject, before, deadline)
        if not found or found[-1].seq != after:
            return
        found, pending = await self._page(subject, after, deadline)
        if len(found) + pending < promised:
            raise LogCorrupt(self.name, after, f"{subject.name}: a record cannot be read")

    async def _check_absence(self, subject: Subject | Branch, deadline: float) -> None:
        """Raise LogCorrupt if a subject that reads as empty has unreadable records.

        A read does not tell: it ends in a 404 for either (nats-server, `getDirectRequest`). Without
        replicas a direct get of the last message does, mostly. Otherwise the leader counts records,
        before and after it has said that there is none.
        """
        if (
            not (self._replicas == 1 and await self._has_no_last([subject.name], deadline))
            and await self.subjects(subject.name, deadline)
            and await self.last_of(subject.name, deadline) is None
            and await self.subjects(subject.name, deadline)
        ):
            raise LogCorrupt(self.name, 0, f"{subject.name}: its records cannot be read")

    # --- direct gets: any replica answers -------------------------------------------------------

    async def _page(
        self, subject: Subject | Branch, after: int, deadline: float
    ) -> tuple[list[Stored], int]:
        """Return what comes after `after`, and how much more the server says there is."""
        request = {
            "seq": after + 1,
            "next_by_subj": subject.name,
            "batch": _PAGE_MESSAGES if after else _FIRST_MESSAGES,
            "max_bytes": _PAGE_BYTES if after else _FIRST_BYTES,
        }
        return await self._collect(request, deadline)

    async def _has_no_last(self, subjects: Sequence[str], deadline: float) -> bool:
        """Whether the server knows of no record of some subjects, not even an unreadable one."""
        msg = await self._ask({"multi_last": subjects, "batch": 1}, deadline)
        return (msg.headers or {}).get("Description") == NO_RESULTS

    async def _get(self, request: dict[str, object], deadline: float) -> Stored | None:
        """Return the one message that a replica has for a request, or None."""
        msg = await self._ask(request, deadline)
        return stored_in(msg)[0] if status_of(msg) is None else None

    async def _ask(self, request: dict[str, object], deadline: float) -> Msg:
        """Return the message that a replica has for a request, or that it has none."""
        payload = msgspec.json.encode(request)

        async def attempt(timeout: float) -> Msg:
            msg = await self.connection.request(self._direct, payload, timeout=timeout)
            self._holds(msg, None)
            return msg

        return await self.retry(attempt, deadline)

    async def _collect(
        self, request: dict[str, object], deadline: float
    ) -> tuple[list[Stored], int]:
        """Return the messages that a replica has for a request, and how many come after them."""
        payload = msgspec.json.encode(request)

        async def attempt(timeout: float) -> tuple[list[Stored], int]:
            *messages, end = await self.connection.collect(self._direct, payload, timeout=timeout)
            if not self._holds(end, "204"):
                return [], 0
            found: list[Stored] = []
            last = 0
            for msg in messages:
                stored, previous = stored_in(msg)
                if (previous or 0) != last:  # a reply was lost on its way; the log still has it
                    raise LogUnavailable(f"reading {self.name}: a page came with a gap")
                last = stored.seq
                found.append(stored)
            return found, int((end.headers or {}).get("Nats-Num-Pending", "0"))

        return await self.retry(attempt, deadline)

    @property
    def _direct(self) -> str:
        return f"$JS.API.DIRECT.GET.{self.name}"

    def _holds(self, msg: Msg, found: str | None) -> bool:
        """Whether an answer has the status `found`; raise LogUnavailable unless nothing was."""
        status = status_of(msg)
        if status in (found, "404"):
            return status == found
        headers = msg.headers or {}
        reason = f"{headers.get('Status')} {headers.get('Description', '')}"
        raise LogUnavailable(f"reading {self.name}: {reason}")


def stored_in(msg: Msg) -> tuple[Stored, int | None]:
    """Return what a message holds, and the sequence before it in its page or subject, 0 for none.

    Raises:
        KeyError, ValueError: it has not the headers of a stored message.
    """
    block = msg.block if isinstance(msg, Incoming) else b""
    if (found := STORED_HEADERS.search(block)) is not None:
        subject, seq, stored, previous = found.groups()
        time = wire.time_of(block, stored.decode())
        return Stored(subject.decode(), int(seq), time, msg.data), int(previous)
    headers = msg.headers or {}
    where = headers.get("Nats-Subject", "")
    time_stamp = headers.get(wire.FIRST_TIME) or headers["Nats-Time-Stamp"]
    before = headers.get("Nats-Last-Sequence")
    message = Stored(where, int(headers["Nats-Sequence"]), time_stamp, msg.data)
    return message, None if before is None else int(before)
