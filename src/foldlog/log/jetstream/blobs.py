"""Blobs in JetStream's Object Store: one bucket a namespace, laid out as ADR-20 of NATS says.

Any Object Store client can list and read the bucket. It is written and read by requests of our
own rather than through nats-py, for three reasons:
- nats-py reads by an ordered consumer, which may stall or skip when the reader is slow. Here
  chunks come by direct get on their literal subject, page by page, each chained to the one before;
  where a page brings nothing, because a replica lags or a message is gone, the leader decides.
- Chunks can carry a TTL, so that bytes whose time is over leave the disk although nobody comes
  back for them, and so do those of an upload that was cut short. (The log's own streams allow no
  TTL: an envelope is for ever, a blob is not.)
- Several chunks are under way at once, and errors are those of `Connection`, translated once.
"""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from foldlog.errors import (
    AppendFailed,
    ConfigurationError,
    FoldlogError,
    LogCorrupt,
    LogTimeout,
    LogUnavailable,
)
from foldlog.log.jetstream import streams, wire
from foldlog.log.jetstream.connection import Connection
from foldlog.log.jetstream.log import JetStreamLog

CHUNK_BYTES: Final = 128 * 1024
"""What Object Store clients use; a server's smallest sensible `max_payload` holds it."""

_IN_FLIGHT: Final = 16
"""Chunks published side by side: the server syncs while the next ones arrive."""

_PAGE_BYTES: Final = 1024 * 1024
_PAGE_CHUNKS: Final = _PAGE_BYTES // CHUNK_BYTES

_GRACE: Final = 3600
"""Seconds that the server keeps a blob beyond its TTL: by so much may clocks differ."""

_LONGEST: Final = 100 * 365 * 86_400
"""A TTL beyond a hundred years is none; the server counts nanoseconds and would overflow."""

_RETRY_PAUSE: Final = 0.05

_ack_decoder = msgspec.json.Decoder(wire.PubAck)
_message_decoder = msgspec.json.Decoder(wire.MessageAnswer)


class _Info(msgspec.Struct, frozen=True):
    """An object's meta message."""

    name: str
    bucket: str
    nuid: str
    size: int
    chunks: int
    digest: str = ""
    mtime: str = ""
    options: dict[str, Any] = {}


_info_decoder = msgspec.json.Decoder(_Info)


class JetStreamBlobs:
    """The bucket of a log's namespace, made at the first `put`. Lives and ends with the log."""

    def __init__(self, log: JetStreamLog) -> None:
        self._log = log
        self._timeout = log.timeout
        self._bucket = log.namespace.bucket()
        self._stream = f"OBJ_{self._bucket}"
        self._made = False

    async def put(self, name: str, data: bytes, *, sha256: str, ttl: int | None) -> None:
        """See the port. Every request has the log's timeout, so that big data has more time."""
        await self._connection.ready(self._timeout)
        await self._make_bucket()
        size = min(CHUNK_BYTES, self._connection.max_payload - 1024)
        starts = range(0, len(data), size)
        digest = base64.urlsafe_b64encode(bytes.fromhex(sha256)).decode()
        info = _Info(
            name=name,
            bucket=self._bucket,
            nuid=name,  # as unique as one, and found without a look at the meta message
            size=len(data),
            chunks=len(starts),
            digest=f"SHA-256={digest}",
            mtime=dt.datetime.now(dt.UTC).isoformat(),
            options={"max_chunk_size": size},
        )
        headers = {} if ttl is None or ttl > _LONGEST else {"Nats-TTL": f"{ttl + _GRACE}s"}
        try:
            for first in range(0, len(starts), _IN_FLIGHT):
                chunks = [
                    data[start : start + size] for start in starts[first : first + _IN_FLIGHT]
                ]
                await self._publish(self._chunk_subject(name), chunks, headers)
            # Last, so that a reader who finds the meta message finds every chunk.
            meta = {**headers, "Nats-Rollup": "sub"}
            await self._publish(self._meta_subject(name), [msgspec.json.encode(info)], meta)
        except FoldlogError:
            await self.delete(name)
            raise

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
        """See the port. Nothing stays, not even the marker that Object Store clients leave."""
        for subject in (self._chunk_subject(name), self._meta_subject(name)):
            answer = await streams.api(
                self._connection,
                f"STREAM.PURGE.{self._stream}",
                wire.PurgeAnswer,
                {"filter": subject},
                timeout=self._timeout,
            )
            if answer.error is not None and answer.error.err_code != wire.NO_STREAM:
                raise LogUnavailable(f"deleting blob {name}: {answer.error.description}")

    @property
    def _connection(self) -> Connection:
        return self._log.connection

    def _chunk_subject(self, name: str) -> str:
        return f"$O.{self._bucket}.C.{name}"

    def _meta_subject(self, name: str) -> str:
        return f"$O.{self._bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"

    async def _make_bucket(self) -> None:
        if self._made:
            return
        shard = self._log.namespace.stream(0)
        log = await streams.describe(self._connection, shard, timeout=self._timeout)
        if log.error is not None:
            raise LogUnavailable(f"{shard}: {log.error.description}")
        config = {
            "name": self._stream,
            "subjects": [f"$O.{self._bucket}.C.>", f"$O.{self._bucket}.M.>"],
            "storage": "file",
            "discard": "new",
            "num_replicas": log.config.num_replicas,
            "allow_rollup_hdrs": True,
            "allow_direct": True,
            "allow_msg_ttl": True,
        }
        found = await streams.describe(self._connection, self._stream, timeout=self._timeout)
        if found.error is not None and found.error.err_code == wire.NO_STREAM:
            # Creating is idempotent: of two who make the bucket at once, both have made it.
            found = await streams.api(
                self._connection,
                f"STREAM.CREATE.{self._stream}",
                wire.StreamDescription,
                config,
                timeout=self._timeout,
            )
        if found.error is not None:
            raise ConfigurationError(
                f"the artifact bucket {self._bucket} was refused: {found.error.description}"
            )
        self._made = True

    async def _publish(
        self, subject: str, payloads: Sequence[bytes], headers: dict[str, str]
    ) -> None:
        # One connection keeps its order, and so does the stream.
        replies = await asyncio.gather(
            *(
                self._connection.request(subject, part, timeout=self._timeout, headers=headers)
                for part in payloads
            ),
            return_exceptions=True,
        )
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
            ack = _ack_decoder.decode(reply.data)
            if ack.error is not None:
                raise AppendFailed(f"{ack.error.description} ({ack.error.err_code})")

    async def _read(self, name: str) -> bytes | None:
        stored = await self._leaders({"last_by_subj": self._meta_subject(name)})
        if stored is None:
            return None
        info = _info_decoder.decode(stored.data)
        chunks: list[bytes] = []
        after = 0
        while len(chunks) < info.chunks:
            found = await self._page(self._chunk_subject(info.nuid), after)
            if not found:
                chunk = await self._leaders(
                    {"seq": after + 1, "next_by_subj": self._chunk_subject(info.nuid)}
                )
                found = [] if chunk is None else [(chunk.seq, chunk.data)]
            if not found:
                if await self._leaders({"last_by_subj": self._meta_subject(name)}) is None:
                    return None  # deleted while it was read
                missing = f"chunk {len(chunks) + 1} of {info.chunks} is missing"
                raise LogCorrupt(self._stream, after, f"blob {name}: {missing}")
            chunks.extend(data for _, data in found)
            after = found[-1][0]
        data = b"".join(chunks)
        if len(data) != info.size:
            reason = f"blob {name}: {len(data)} bytes instead of {info.size}"
            raise LogCorrupt(self._stream, after, reason)
        return data

    async def _page(self, subject: str, after: int) -> list[tuple[int, bytes]]:
        """The next chunks that some replica has, by sequence; none if they have a gap."""
        request = {
            "seq": after + 1,
            "next_by_subj": subject,
            "batch": _PAGE_CHUNKS,
            "max_bytes": _PAGE_BYTES,
        }
        *found, _ = await self._connection.collect(
            f"$JS.API.DIRECT.GET.{self._stream}",
            msgspec.json.encode(request),
            timeout=self._timeout,
        )
        page: list[tuple[int, bytes]] = []
        previous = "0"  # what the server calls the predecessor of a page's first message
        for msg in found:
            headers = msg.headers or {}
            if headers.get("Nats-Last-Sequence") != previous:
                return []
            previous = headers["Nats-Sequence"]
            page.append((int(previous), msg.data))
        return page

    async def _leaders(self, request: dict[str, Any]) -> wire.StoredMessage | None:
        """What the stream's leader has; None if that is nothing."""
        msg = await self._connection.request(
            f"$JS.API.STREAM.MSG.GET.{self._stream}",
            msgspec.json.encode(request),
            timeout=self._timeout,
        )
        answer = _message_decoder.decode(msg.data)
        if answer.error is None:
            return answer.message
        if answer.error.err_code in (wire.NO_MESSAGE, wire.NO_STREAM):
            return None
        raise LogUnavailable(f"{self._stream}: {answer.error.description}")
