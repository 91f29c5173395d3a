"""Blobs in a stream of their own: the last message of each subject, one subject a chunk.

`<name>.0`, `<name>.1` and so on hold the chunks, `<name>.whole` says how many there are. It is
written last, so whoever finds it finds every chunk. Two who store the same blob at once write the
same messages. Chunks can carry a TTL: the bytes then leave the disk although nobody comes back for
them. (The log's own streams allow no TTL: an envelope is for ever, a blob is not.)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

import msgspec
from nats.aio.msg import Msg

from foldlog.errors import (
    AppendFailed,
    ConfigurationError,
    LogCorrupt,
    LogTimeout,
    LogUnavailable,
)
from foldlog.log.jetstream import streams, wire
from foldlog.log.jetstream.client import Outgoing, header_block
from foldlog.log.jetstream.connection import Connection, ReplyLost, status_of
from foldlog.log.jetstream.log import JetStreamLog

CHUNK_BYTES: Final = 128 * 1024
"""A server's smallest sensible `max_payload` holds it."""

_IN_FLIGHT: Final = 16
"""Chunks under way at once: the server syncs while the next ones arrive."""

_GRACE: Final = 3600
"""Seconds that the server keeps a blob beyond its TTL: by so much may clocks differ."""

_LONGEST: Final = 100 * 365 * 86_400
"""A TTL beyond a hundred years is none; the server counts nanoseconds and would overflow."""

_RETRY_PAUSE: Final = 0.05


class _Whole(msgspec.Struct, frozen=True):
    """The message that completes a blob."""

    size: int
    chunks: int


class JetStreamBlobs:
    """The blobs of a log's namespace, in a stream made at the first `put`. Ends with the log."""

    def __init__(self, log: JetStreamLog) -> None:
        self._log = log
        self._timeout = log.timeout
        self._stream = log.namespace.blobs()
        self._is_made = False

    async def put(self, name: str, data: bytes, *, ttl: int | None = None) -> None:
        """See the port. Every request has the log's timeout, so that big data has more time."""
        await self._connection.ready(self._timeout)
        await self._make_stream()
        if await self._leaders(name, "whole") is not None:
            return
        size = min(CHUNK_BYTES, self._connection.max_payload - 1024)
        parts = [data[start : start + size] for start in range(0, len(data), size)]
        whole = msgspec.json.encode(_Whole(len(data), len(parts)))
        for first in range(0, len(parts), _IN_FLIGHT):
            some = enumerate(parts[first : first + _IN_FLIGHT], first)
            await self._publish([(self._subject(name, n), part) for n, part in some], ttl)
        await self._publish([(self._subject(name, "whole"), whole)], ttl)

    async def get(self, name: str) -> bytes | None:
        """See the port. What a lost connection interrupts is read again."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return await self._read(name)
            except LogTimeout:
                raise
            except LogUnavailable:
                left = deadline - time.monotonic()
                if left <= _RETRY_PAUSE:
                    raise
                await self._connection.ready(left)
                await asyncio.sleep(_RETRY_PAUSE)

    async def delete(self, name: str) -> None:
        """See the port."""
        answer = await streams.api(
            self._connection,
            f"STREAM.PURGE.{self._stream}",
            wire.PurgeAnswer,
            {"filter": self._subject(name, "*")},
            timeout=self._timeout,
        )
        if answer.error is not None and answer.error.err_code != wire.NO_STREAM:
            raise LogUnavailable(f"deleting blob {name}: {answer.error.description}")

    @property
    def _connection(self) -> Connection:
        return self._log.connection

    def _subject(self, name: str, part: int | str) -> str:
        return self._log.namespace.blob(name, str(part))

    async def _make_stream(self) -> None:
        if self._is_made:
            return
        shard = self._log.namespace.stream(0)
        log = await streams.describe(self._connection, shard, timeout=self._timeout)
        if log.error is not None:
            raise LogUnavailable(f"{shard}: {log.error.description}")
        config = {
            "name": self._stream,
            "subjects": [self._log.namespace.blob("*", "*")],
            "storage": "file",
            "discard": "new",
            "max_msgs_per_subject": 1,
            "num_replicas": log.config.num_replicas,
            "allow_direct": True,
            "allow_msg_ttl": True,
        }
        found = await streams.describe(self._connection, self._stream, timeout=self._timeout)
        if found.error is not None and found.error.err_code == wire.NO_STREAM:
            # Creating is idempotent: two who make the stream at once have both made it.
            found = await streams.api(
                self._connection,
                f"STREAM.CREATE.{self._stream}",
                wire.StreamDescription,
                config,
                timeout=self._timeout,
            )
        if found.error is not None:
            raise ConfigurationError(f"{self._stream} was refused: {found.error.description}")
        self._is_made = True

    async def _publish(self, messages: Sequence[tuple[str, bytes]], ttl: int | None) -> None:
        expiring = ttl is not None and ttl <= _LONGEST
        headers = header_block({"Nats-TTL": f"{ttl + _GRACE}s"}) if expiring and ttl else b""
        outgoing = [Outgoing(subject, data, headers) for subject, data in messages]
        for reply in await self._replies("storing a blob", outgoing):
            ack = msgspec.json.decode(reply.data, type=wire.PubAck)
            if ack.error is not None:
                raise AppendFailed(f"{ack.error.description} ({ack.error.err_code})")

    async def _read(self, name: str) -> bytes | None:
        stored = await self._leaders(name, "whole")
        if stored is None:
            return None
        whole = msgspec.json.decode(stored, type=_Whole)
        chunks: list[bytes] = []
        direct = f"$JS.API.DIRECT.GET.{self._stream}"
        for first in range(0, whole.chunks, _IN_FLIGHT):
            numbers = range(first, min(first + _IN_FLIGHT, whole.chunks))
            asked = [Outgoing(f"{direct}.{self._subject(name, number)}", b"") for number in numbers]
            replies = await self._replies("reading a blob", asked)
            for number, reply in zip(numbers, replies, strict=True):
                # A replica may lag; the leader says whether there is a chunk.
                is_found = status_of(reply) is None
                chunk = reply.data if is_found else await self._leaders(name, number)
                if chunk is None:
                    if await self._leaders(name, "whole") is None:
                        return None  # deleted while it was read
                    missing = f"chunk {number + 1} of {whole.chunks} is missing"
                    raise LogCorrupt(self._stream, 0, f"blob {name}: {missing}")
                chunks.append(chunk)
        data = b"".join(chunks)
        if len(data) != whole.size:
            reason = f"blob {name}: {len(data)} bytes instead of {whole.size}"
            raise LogCorrupt(self._stream, 0, reason)
        return data

    async def _replies(self, what: str, requests: Sequence[Outgoing]) -> list[Msg]:
        replies = await self._connection.request_each(requests, timeout=self._timeout)
        found = [reply for reply in replies if reply is not None]
        if len(found) < len(replies):
            raise ReplyLost(f"{what}: no reply came")
        if any(status_of(reply) == "503" for reply in found):
            raise LogUnavailable(f"{what}: nobody serves {self._stream}")
        return found

    async def _leaders(self, name: str, part: int | str) -> bytes | None:
        """What the stream's leader has at a part; None if that is nothing."""
        answer = await streams.api(
            self._connection,
            f"STREAM.MSG.GET.{self._stream}",
            wire.MessageAnswer,
            {"last_by_subj": self._subject(name, part)},
            timeout=self._timeout,
        )
        if answer.message is not None:
            return answer.message.data
        if answer.error is not None and answer.error.err_code in (wire.NO_MESSAGE, wire.NO_STREAM):
            return None
        what = answer.error.description if answer.error is not None else "no message"
        raise LogUnavailable(f"{self._stream}: {what}")
