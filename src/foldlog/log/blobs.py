"""Blobs beside the log: bytes too large for an envelope, under a name that never means others.

`<name>.0`, `<name>.1` and so on hold the chunks; `<name>.whole` is written last and says how many
there are. The log says which blobs are used (`foldlog.store.blobs`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.errors import LogCorrupt
from foldlog.log.side import Side
from foldlog.subjects import Namespace

CHUNK_BYTES: Final = 128 * 1024
"""A server's smallest sensible `max_payload` holds it."""

_IN_FLIGHT: Final = 16
"""Chunks under way at once: the server syncs while the next ones arrive."""

_GRACE: Final = 3600
"""Seconds that a blob stays beyond its TTL: clocks may differ by so much."""

_LONGEST: Final = 100 * 365 * 86_400
"""A TTL beyond a hundred years is none; the server counts nanoseconds and would overflow."""


class _Whole(msgspec.Struct, frozen=True):
    """The message that completes a blob."""

    size: int
    chunks: int


class Blobs:
    """The blobs of a namespace. They end with the log that they belong to."""

    def __init__(self, side: Side, namespace: Namespace) -> None:
        self._side = side
        self._namespace = namespace

    async def put(self, name: str, data: bytes, *, ttl: int | None = None) -> None:
        """Store `data`. Storing it again is safe.

        `ttl`: the seconds for which it must be readable; it may be removed at some time after
        that. None: until `delete`.

        Raises:
            AppendFailed: refused. LogUnavailable, LogTimeout: not stored whole. Nobody can read
                it; `delete` removes what was stored.
        """
        if await self._side.last(self._subject(name, "whole")) is not None:
            return
        span = ttl + _GRACE if ttl is not None and 0 < ttl <= _LONGEST else None
        size = min(CHUNK_BYTES, self._side.max_bytes)
        parts = [
            (self._subject(name, number), data[start : start + size])
            for number, start in enumerate(range(0, len(data), size))
        ]
        whole = msgspec.json.encode(_Whole(len(data), len(parts)))
        for first in range(0, len(parts), _IN_FLIGHT):
            await self._side.put(parts[first : first + _IN_FLIGHT], ttl=span)
        await self._side.put([(self._subject(name, "whole"), whole)], ttl=span)

    async def get(self, name: str) -> bytes | None:
        """Return what was stored under `name`, or None; raise LogCorrupt if a part is missing."""
        stored = await self._side.last(self._subject(name, "whole"))
        if stored is None:
            return None
        whole = msgspec.json.decode(stored.data, type=_Whole)
        chunks: list[bytes] = []
        subjects = [self._subject(name, number) for number in range(whole.chunks)]
        for first in range(0, whole.chunks, _IN_FLIGHT):
            asked = subjects[first : first + _IN_FLIGHT]
            for subject, chunk in zip(asked, await self._side.get(asked), strict=True):
                if chunk is not None:
                    chunks.append(chunk)
                elif (last := await self._side.last(subject)) is not None:
                    chunks.append(last.data)  # the replica lagged
                elif await self._side.last(self._subject(name, "whole")) is None:
                    return None  # deleted while it was read
                else:
                    raise self._corrupt(
                        name, f"chunk {len(chunks) + 1} of {whole.chunks} is missing"
                    )
        data = b"".join(chunks)
        if len(data) != whole.size:
            raise self._corrupt(name, f"{len(data)} bytes instead of {whole.size}")
        return data

    async def delete(self, name: str) -> None:
        """Remove what was stored under `name`; fine if nothing is. Deleting again is safe."""
        await self._side.purge(self._subject(name, "*"))

    async def names(self) -> list[str]:
        """Return the names of all that is stored. For operators."""
        found = await self._side.subjects(self._subject("*", "*"))
        return list(dict.fromkeys(subject.split(".")[3] for subject in found))

    def _subject(self, name: str, part: int | str) -> str:
        return self._namespace.blob(name, str(part))

    def _corrupt(self, name: str, reason: str) -> LogCorrupt:
        return LogCorrupt(self._side.name, 0, f"blob {name}: {reason}")
