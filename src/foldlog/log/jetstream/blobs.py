"""Blobs in a stream of their own: the last message of each subject, one subject a chunk.

`<name>.0`, `<name>.1` and so on hold the chunks, `<name>.whole` says how many there are. It is
written last, so whoever finds it finds every chunk. Two who store the same blob at once write the
same messages. Chunks can carry a TTL: the bytes then leave the disk although nobody comes back for
them. (The log's own streams allow no TTL: an envelope is for ever, a blob is not.)
"""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.errors import LogCorrupt
from foldlog.log.jetstream.log import JetStreamLog
from foldlog.log.jetstream.side import SideStream

CHUNK_BYTES: Final = 128 * 1024
"""A server's smallest sensible `max_payload` holds it."""

_IN_FLIGHT: Final = 16
"""Chunks under way at once: the server syncs while the next ones arrive."""

_GRACE: Final = 3600
"""Seconds that the server keeps a blob beyond its TTL: by so much may clocks differ."""

_LONGEST: Final = 100 * 365 * 86_400
"""A TTL beyond a hundred years is none; the server counts nanoseconds and would overflow."""


class _Whole(msgspec.Struct, frozen=True):
    """The message that completes a blob."""

    size: int
    chunks: int


class JetStreamBlobs:
    """The blobs of a log's namespace, in a stream made at the first `put`. Ends with the log."""

    def __init__(self, log: JetStreamLog) -> None:
        self._log = log
        self._side = SideStream(
            log.connection,
            log.namespace.blobs(),
            log.namespace.blob("*", "*"),
            replicas=log.replicas,
            timeout=log.timeout,
            discard="new",
            allow_msg_ttl=True,
        )

    async def put(self, name: str, data: bytes, *, ttl: int | None = None) -> None:
        """See the port. Every request has the log's timeout, so that big data has more time."""
        if await self._side.last(self._subject(name, "whole")) is not None:
            return
        expires = ttl is not None and ttl <= _LONGEST
        headers = {"Nats-TTL": f"{ttl + _GRACE}s"} if expires and ttl else None
        size = min(CHUNK_BYTES, self._log.connection.max_payload - 1024)
        parts = [
            (self._subject(name, number), data[start : start + size])
            for number, start in enumerate(range(0, len(data), size))
        ]
        whole = msgspec.json.encode(_Whole(len(data), len(parts)))
        for first in range(0, len(parts), _IN_FLIGHT):
            await self._side.publish(parts[first : first + _IN_FLIGHT], headers)
        await self._side.publish([(self._subject(name, "whole"), whole)], headers)

    async def get(self, name: str) -> bytes | None:
        """See the port. What a lost connection interrupts is asked for again."""
        stored = await self._side.last(self._subject(name, "whole"))
        if stored is None:
            return None
        whole = msgspec.json.decode(stored.data, type=_Whole)
        chunks: list[bytes] = []
        subjects = [self._subject(name, number) for number in range(whole.chunks)]
        for first in range(0, whole.chunks, _IN_FLIGHT):
            asked = subjects[first : first + _IN_FLIGHT]
            found = await self._side.get(asked, timeout=self._log.timeout)
            for subject, chunk in zip(asked, found, strict=True):
                if chunk is not None:
                    chunks.append(chunk)
                    continue
                # A replica may lag; the leader says whether there is a chunk.
                last = await self._side.last(subject)
                if last is not None:
                    chunks.append(last.data)
                    continue
                if await self._side.last(self._subject(name, "whole")) is None:
                    return None  # deleted while it was read
                missing = f"chunk {len(chunks) + 1} of {whole.chunks} is missing"
                raise LogCorrupt(self._side.name, 0, f"blob {name}: {missing}")
        data = b"".join(chunks)
        if len(data) != whole.size:
            reason = f"blob {name}: {len(data)} bytes instead of {whole.size}"
            raise LogCorrupt(self._side.name, 0, reason)
        return data

    async def delete(self, name: str) -> None:
        """See the port."""
        await self._side.purge(self._subject(name, "*"))

    def _subject(self, name: str, part: int | str) -> str:
        return self._log.namespace.blob(name, str(part))
