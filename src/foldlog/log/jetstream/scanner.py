"""Reading a stream, or a branch, by a consumer: a direct get costs the server five times as much.

Nothing is acked. Each message carries its number in the delivery, so that a lost one is noticed,
and pages are asked for one by one, so that what is under way is bounded.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from foldlog.errors import LogCorrupt, LogTimeout, LogUnavailable
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.asking import LAG_PAUSE, ask, wait_for_all
from foldlog.log.jetstream.client import Incoming
from foldlog.log.jetstream.server_details import TOO_LARGE, counted_bytes
from foldlog.log.jetstream.stream import StreamClient
from foldlog.log.port import Stored
from foldlog.subjects import matching

_PAGE_MESSAGES: Final = 4096
_PAGE_BYTES: Final = 1024 * 1024
_FORGOTTEN: Final = 30
"""Seconds without a request after which the server removes the consumer."""

_SECOND: Final = 1_000_000_000

_FILTERS: Final = 64
"""Filters from which on reading everything costs less than asking where each one ends."""

_LONG: Final = 2 * _PAGE_MESSAGES
"""Sequences from which on a filter has to be worth it: the server takes four times as long for a
message that it filters as for one that it only sends."""

_DOUBTS: Final = (0.0, 0.1, 0.3, 1.0)
"""Seconds after which the server is asked again how many messages it counts."""


async def scan(
    client: StreamClient, everything: str, after: int, *, only: Sequence[str] = ()
) -> AsyncGenerator[list[Stored]]:
    """Yield `Log.scan`; `everything` matches all subjects of the stream."""
    begun, found, is_whole, is_meant = after, 0, True, matching(only)
    filters = list(only) if 0 < len(only) <= _FILTERS else [everything]
    which = {} if filters == [everything] else {"filter_subjects": filters}
    head = await _head(client, filters)
    if which and head - after > _LONG and 2 * await _pending(client, after, which) > head - after:
        which = {}
    reading: ConsumerRead | None = None

    async def next_page(timeout: float) -> list[Stored]:
        nonlocal reading, is_whole
        reading = reading or await ConsumerRead.begin(client, after, which)
        try:
            stored = await reading.page()
            # The server counts what it cannot read, and counts anew only before a page.
            is_whole = after == begun and reading.left == 0
            return stored
        except LogUnavailable:
            ended, reading = reading, None
            await ended.close()
            raise

    asking = client.asking()
    try:
        while after < head:
            if stored := await client.retry(next_page, asking.deadline):
                after = stored[-1].seq
                found += len(stored)
                if only and not which:
                    stored = [each for each in stored if is_meant(each.subject)]
                if stored:
                    yield stored
                asking = client.asking()
                continue
            # Purged meanwhile, or not known yet to the replica that reads.
            await asking.again(LogTimeout("waiting for a replica", client.timeout), LAG_PAUSE)
            head = min(head, await _head(client, filters))
    finally:
        if reading is not None:
            await reading.close()
    if not is_whole:
        await _check_whole(client, begun, after, found, which)


async def _check_whole(
    client: StreamClient, begun: int, after: int, found: int, which: dict[str, list[str]]
) -> None:
    """Raise LogCorrupt if the server counts more between two sequences than it has delivered.

    It skips what it cannot read. A purge makes its count smaller, so only a larger one is doubtful.
    """
    lacking = 0
    for number, pause in enumerate(_DOUBTS):
        # Each of the two ends is counted by some replica: the second may not know yet what the
        # first does, and what comes after both may be purged in between.
        await asyncio.sleep(pause)
        counted = await _pending(client, begun, which) - await _pending(client, after, which)
        lacking = min(lacking, counted - found) if number else counted - found
        if lacking <= 0:
            return
    raise LogCorrupt(client.name, after, f"{lacking} records before it cannot be read")


async def _pending(client: StreamClient, after: int, which: dict[str, list[str]]) -> int:
    reading = await client.retry(lambda timeout: ConsumerRead.begin(client, after, which))
    await reading.close()
    return reading.pending


async def _head(client: StreamClient, filters: Sequence[str]) -> int:
    lasts = await wait_for_all(map(client.last_of, filters))
    return max((last.seq for last in lasts if last is not None), default=0)


class ConsumerRead:
    """Reads a stream by a consumer. Lives until `close`, or for half a minute unused.

    `pending` is how many messages followed when it began, `left` how many by the last one read.
    """

    def __init__(self, client: StreamClient, name: str, pending: int) -> None:
        self._client = client
        self._name = name
        self._delivered = 0
        self._next: asyncio.Task[list[Stored]] | None = None
        self.pending = pending
        self.left: int = pending

    @classmethod
    async def begin(
        cls, client: StreamClient, after: int, which: dict[str, list[str]]
    ) -> ConsumerRead:
        """Have the server make the consumer; it begins after a sequence, and filters by `which`."""
        name = f"read-{secrets.token_hex(8)}"
        config = {
            "name": name,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": after + 1,
            **which,
            "ack_policy": "none",
            "num_replicas": 1,
            "mem_storage": True,
            "inactive_threshold": _FORGOTTEN * _SECOND,
        }
        answer = await ask(
            client.connection,
            f"CONSUMER.CREATE.{client.name}.{name}",
            wire.ConsumerDescription,
            {"stream_name": client.name, "config": config},
            timeout=client.timeout,
        )
        if answer.error is not None:
            raise LogUnavailable(f"reading {client.name}: {answer.error.description}")
        return cls(client, name, answer.num_pending)

    async def page(self) -> list[Stored]:
        """Return what comes next, up to 1 MiB; nothing where the stream ends for now.

        The page after that is asked for at once, if there is one. After LogUnavailable, begin anew.
        """
        asked, self._next = self._next or self._begin_page(), None
        try:
            found = await asked
        finally:
            asked.cancel()
        if found and self.left:
            self._next = self._begin_page()
        return found

    async def close(self) -> None:
        """Have the server forget the consumer. Where that fails, it does so by itself."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.wait([self._next])
        try:
            verb = f"$JS.API.CONSUMER.DELETE.{self._client.name}.{self._name}"
            await self._client.connection.request(verb, timeout=self._client.timeout)
        except LogUnavailable:
            return

    def _begin_page(self) -> asyncio.Task[list[Stored]]:
        return asyncio.create_task(self._page(), name="foldlog scan")

    async def _page(self) -> list[Stored]:
        limit, most = _PAGE_BYTES, self._client.connection.max_payload
        while True:
            found, status = await self._ask(limit)
            if found or status.startswith("404"):
                return found
            if not status.endswith(TOO_LARGE) or limit > most:
                raise LogUnavailable(f"reading {self._client.name}: {status}")
            # One message that no page holds. The server counts subjects and headers too.
            limit = 2 * most + _PAGE_BYTES

    async def _ask(self, limit: int) -> tuple[list[Stored], str]:
        """Return a page, and the status that ended it, if any."""
        size = number = 0

        def is_last(msg: Incoming) -> bool:
            nonlocal size, number
            number += 1
            size += counted_bytes(msg)
            return msg.is_status or number == _PAGE_MESSAGES or size == limit

        request = {"batch": _PAGE_MESSAGES, "max_bytes": limit, "no_wait": True}
        messages = await self._client.connection.collect_stored(
            f"$JS.API.CONSUMER.MSG.NEXT.{self._client.name}.{self._name}",
            msgspec.json.encode(request),
            is_last,
            timeout=self._client.timeout,
        )
        status = ""
        if messages and messages[-1].is_status:
            headers = messages.pop().headers or {}
            status = f"{headers.get('Status')} {headers.get('Description', '')}"
        return self._checked(messages), status

    def _checked(self, messages: Sequence[Incoming]) -> list[Stored]:
        """Return the messages of a page; raise LogUnavailable if one was lost on its way."""
        found = []
        number = self._delivered
        for msg in messages:
            subject, ack = msg.raw
            # The sequence, the number in the delivery, the time, and what is pending.
            _, seq, delivered, nanoseconds, left = ack.rsplit(b".", 4)
            number += 1
            if int(delivered) != number:
                raise LogUnavailable(f"reading {self._client.name}: a message was lost on its way")
            stamp = wire.time_of(msg.block, rfc3339(int(nanoseconds)))
            found.append(Stored(subject.decode(), int(seq), stamp, msg.data))
            self.left = int(left)
        self._delivered = number
        return found


def rfc3339(nanoseconds: int) -> str:
    """Return Unix time as the server writes it: in UTC, without zeros at its end."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    text = _date(seconds)
    return f"{text}.{rest:09d}".rstrip("0") + "Z" if rest else text + "Z"


@lru_cache(1024)
def _date(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
