"""Reading a stream in order, by a consumer that lasts as long as the reading.

A direct get writes seven headers on each message, and takes the server five times what a consumer
takes. This one keeps nothing: it acks nothing, lives in memory, and the server removes it when
nobody has asked for `_FORGOTTEN` seconds. What a consumer promises is not relied on: each message
carries its number in the delivery, so that one that is lost is noticed, and pages are asked for one
by one, so that what is under way is bounded.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from foldlog.errors import LogUnavailable
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.parser import Incoming
from foldlog.log.jetstream.requests import ask
from foldlog.log.jetstream.server_details import TOO_LARGE, counted_bytes
from foldlog.log.jetstream.stream import StreamClient
from foldlog.log.port import Stored

_PAGE_MESSAGES: Final = 4096
_PAGE_BYTES: Final = 1024 * 1024

_FORGOTTEN: Final = 30
_SECOND: Final = 1_000_000_000


class ConsumerRead:
    """Reads a stream from one sequence on. Lives until `close`, or for half a minute unused.

    `pending` is how many messages followed when it began.
    """

    def __init__(self, client: StreamClient, name: str, pending: int) -> None:
        self._connection = client.connection
        self._stream = client.name
        self._timeout = client.timeout
        self._name = name
        self._delivered = 0
        self._next: asyncio.Task[list[Stored]] | None = None
        self.pending = pending

    @classmethod
    async def begin(cls, client: StreamClient, after: int) -> ConsumerRead:
        """Begin after a sequence. Errors as `_begin`."""
        start = {"deliver_policy": "by_start_sequence", "opt_start_seq": after + 1}
        return await cls._begin(client, start)

    @classmethod
    async def over_newest(cls, client: StreamClient, matching: str) -> ConsumerRead:
        """Begin with the oldest of the last messages of all subjects that match.

        After the last of them comes what was stored since. Where a page is full, the server
        forgets the message that did not fit. Errors as `_begin`.
        """
        start = {"deliver_policy": "last_per_subject", "filter_subject": matching}
        return await cls._begin(client, start)

    @classmethod
    async def _begin(cls, client: StreamClient, start: Mapping[str, object]) -> ConsumerRead:
        """Have the server make the consumer.

        Raises:
            LogUnavailable: nobody answered in time, or it was refused.
        """
        name = f"read-{secrets.token_hex(8)}"
        config = {
            "name": name,
            **start,
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

        The page after that is asked for at once.

        Raises:
            LogUnavailable: it did not come whole; begin anew.
        """
        asked, self._next = self._next or self._begin_page(), None
        try:
            found = await asked
        finally:
            asked.cancel()
        if found:
            self._next = self._begin_page()
        return found

    def _begin_page(self) -> asyncio.Task[list[Stored]]:
        return asyncio.create_task(self._page(), name="foldlog scan")

    async def _page(self) -> list[Stored]:
        limit = _PAGE_BYTES
        while True:
            found, status = await self._ask(limit)
            if found or status.startswith("404"):
                return found
            if not status.endswith(TOO_LARGE) or limit > self._connection.max_payload:
                raise LogUnavailable(f"reading {self._stream}: {status}")
            # One message that no page holds. The server counts subjects and headers too.
            limit = 2 * self._connection.max_payload + _PAGE_BYTES

    async def close(self) -> None:
        """Have the server forget it. Where that fails, it does so by itself."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.wait([self._next])
        try:
            await self._connection.request(
                f"$JS.API.CONSUMER.DELETE.{self._stream}.{self._name}", timeout=self._timeout
            )
        except LogUnavailable:
            return

    async def _ask(self, limit: int) -> tuple[list[Stored], str]:
        """Return a page, and the status that ended it, "" for none."""
        size = number = 0

        def is_last(msg: Incoming) -> bool:
            nonlocal size, number
            number += 1
            size += counted_bytes(msg)
            return msg.is_status or number == _PAGE_MESSAGES or size == limit

        request = {"batch": _PAGE_MESSAGES, "max_bytes": limit, "no_wait": True}
        messages = await self._connection.collect_stored(
            f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._name}",
            msgspec.json.encode(request),
            is_last,
            timeout=self._timeout,
        )
        status = ""
        if messages and messages[-1].is_status:
            headers = messages.pop().headers or {}
            status = f"{headers.get('Status')} {headers.get('Description', '')}"
        return self._checked(messages), status

    def _checked(self, messages: Sequence[Incoming]) -> list[Stored]:
        found = []
        number = self._delivered
        for msg in messages:
            subject, ack = msg.raw
            # The sequence, the number in the delivery, the time, and what is pending.
            _, seq, delivered, nanoseconds, _ = ack.rsplit(b".", 4)
            number += 1
            if int(delivered) != number:
                raise LogUnavailable(f"reading {self._stream}: a message was lost on its way")
            stamp = rfc3339(int(nanoseconds))
            found.append(Stored(subject.decode(), int(seq), stamp, msg.data))
        self._delivered = number
        return found


def rfc3339(nanoseconds: int) -> str:
    """Unix time as the server writes it: in UTC, without zeros at its end."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    text = _date(seconds)
    return f"{text}.{rest:09d}".rstrip("0") + "Z" if rest else text + "Z"


@lru_cache(1024)
def _date(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
