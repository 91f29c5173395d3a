"""Blobs beside the log: bytes too large for an envelope. Each belongs to one subject of the log.

Parts 0, 1 and so on hold the chunks; the part `whole` is written last and says how many there are.
"""

from __future__ import annotations

import datetime as dt
from typing import Final, NamedTuple

import msgspec

from foldlog.batches import in_batches
from foldlog.errors import LogCorrupt
from foldlog.log.side import Side
from foldlog.subjects import Namespace, blob

CHUNK_BYTES: Final = 128 * 1024
"""A server's smallest sensible `max_payload` holds it."""

_IN_FLIGHT: Final = 16
"""Chunks under way at once: the server syncs while the next ones arrive."""

_WHOLE: Final = "whole"
_GRACE: Final = 3600
"""Seconds that a blob stays beyond its TTL: clocks may differ by so much."""

_LONGEST: Final = 100 * 365 * 86_400
"""A TTL beyond a hundred years is none; the server counts nanoseconds and would overflow."""


class _Whole(msgspec.Struct, frozen=True):
    """The message that completes a blob."""

    size: int
    chunks: int


class BlobName(NamedTuple):
    """A blob, by the name of the subject that it belongs to and its own."""

    subject: str
    name: str


class Blobs:
    """The blobs of a namespace, each of one subject of the log. They end with the log.

    Subjects and branches are given by their names.
    """

    def __init__(self, side: Side, namespace: Namespace) -> None:
        self._side = side
        self._namespace = namespace

    async def put(self, subject: str, name: str, data: bytes, *, ttl: int | None = None) -> None:
        """Store `data`. Storing it again is safe.

        `ttl`: the seconds for which it must be readable; it may be removed at some time after
        that. None: until it is deleted.

        Raises:
            AppendFailed: refused. LogUnavailable, LogTimeout: not stored whole. Nobody can read
                it; `delete` removes what was stored.
        """
        span = ttl + _GRACE if ttl is not None and 0 < ttl <= _LONGEST else None
        size = min(CHUNK_BYTES, self._side.max_bytes)
        parts = [
            (blob(subject, name, number), data[start : start + size])
            for number, start in enumerate(range(0, len(data), size))
        ]
        whole = msgspec.json.encode(_Whole(len(data), len(parts)))
        # Also what was removed while it was being stored is stored again.
        if len(await self._side.subjects(blob(subject, name, "*"))) == len(parts) + 1:
            return
        for some in in_batches(parts, _IN_FLIGHT):
            await self._side.put(some, ttl=span)
        await self._side.put([(blob(subject, name, _WHOLE), whole)], ttl=span)

    async def holds(self, subject: str, name: str) -> bool:
        """Return whether a blob is stored whole."""
        return await self._side.last(blob(subject, name, _WHOLE)) is not None

    async def get(self, subject: str, name: str) -> bytes | None:
        """Return what was stored under `name`, or None; raise LogCorrupt if a part is missing."""
        stored = await self._side.last(blob(subject, name, _WHOLE))
        if stored is None:
            return None
        whole = msgspec.json.decode(stored.data, type=_Whole)
        chunks: list[bytes] = []
        subjects = [blob(subject, name, number) for number in range(whole.chunks)]
        for asked in in_batches(subjects, _IN_FLIGHT):
            for part, chunk in zip(asked, await self._side.get(asked), strict=True):
                if chunk is not None:
                    chunks.append(chunk)
                elif (last := await self._side.last(part)) is not None:
                    chunks.append(last.data)  # the replica lagged
                elif not await self.holds(subject, name):
                    return None  # deleted while it was read
                else:
                    raise self._corrupt(
                        name, f"chunk {len(chunks) + 1} of {whole.chunks} is missing"
                    )
        data = b"".join(chunks)
        if len(data) != whole.size:
            raise self._corrupt(name, f"{len(data)} bytes instead of {whole.size}")
        return data

    async def delete(self, of: str, name: str = "*") -> None:
        """Remove a blob of a subject, or all of a subject or branch; fine if there is none."""
        await self._side.purge(blob(of, name, "*"))

    async def names(self, of: str | None = None, *, partial: bool = False) -> list[BlobName]:
        """Return the blobs of a subject or branch, or all, sorted.

        `partial`: also those that are stored only in part.
        """
        below = self._namespace.everything() if of is None else of
        found = await self._side.subjects(blob(below, "*", "*" if partial else _WHOLE))
        split = (each.split(".", 3) for each in found)
        return sorted({BlobName(subject, name) for _, _, name, subject in split})

    async def stored_at(self, blob_name: BlobName) -> float:
        """Return when a blob was stored, or its first part if it is not whole, in Unix seconds.

        0 if it is gone.
        """
        for part in (_WHOLE, 0):
            stored = await self._side.last(blob(blob_name.subject, blob_name.name, part))
            if stored is not None and stored.time:
                return dt.datetime.fromisoformat(stored.time).timestamp()
        return 0.0

    def _corrupt(self, name: str, reason: str) -> LogCorrupt:
        return LogCorrupt(self._side.name, 0, f"blob {name}: {reason}")
