"""Blobs beside the log: bytes too large for an envelope, under a name that means nothing else.

Which blobs count, and for whom, the log says (`foldlog.store.blobs`).
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Blobs(Protocol):
    """Named bytes. They live as long as the log they belong to, which is also what closes them."""

    async def put(self, name: str, data: bytes, *, ttl: int | None = None) -> None:
        """Store `data` under a name that never stands for other bytes. Again is safe.

        `ttl`: seconds for which it must be readable; the backend may remove it at some time after
        that. None: until `delete`.

        Raises:
            AppendFailed: refused. LogUnavailable, LogTimeout: not stored whole. `delete` removes
                what was stored of it; nobody can read it.
        """
        ...

    async def get(self, name: str) -> bytes | None:
        """Return what was stored under `name`, or None if nothing is.

        Raises:
            LogCorrupt: a part is missing. LogUnavailable, LogTimeout: it could not be read.
        """
        ...

    async def delete(self, name: str) -> None:
        """Remove what was stored under `name`; fine if nothing is.

        Raises:
            LogUnavailable: it may still be there; deleting again is safe.
        """
        ...


class MemoryBlobs:
    """Blobs that last as long as the object; `ttl` removes nothing here."""

    def __init__(self) -> None:
        self._stored: dict[str, bytes] = {}

    async def put(self, name: str, data: bytes, *, ttl: int | None = None) -> None:
        await asyncio.sleep(0)  # as on a server, nothing happens without giving way
        self._stored.setdefault(name, data)

    async def get(self, name: str) -> bytes | None:
        await asyncio.sleep(0)
        return self._stored.get(name)

    async def delete(self, name: str) -> None:
        await asyncio.sleep(0)
        self._stored.pop(name, None)

    def names(self) -> list[str]:
        """What is stored, by name."""
        return list(self._stored)
