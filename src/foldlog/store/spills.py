"""Values that are too large for a message: kept as blobs that the log names.

A scope's index knows every blob that its values were ever in. They stay as long as the history that
names them.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from typing import Final

from foldlog.log.blobs import Blobs
from foldlog.store.primitives import Primitives
from foldlog_projections import scopes

SPILL_BYTES: Final = 256 * 1024
"""Encoded values larger than this are spilled: a page of values stays small."""

_HASHED_IN_A_THREAD: Final = 1024 * 1024
"""Bytes from which hashing would hold the event loop up for longer than a thread costs."""


class Spills:
    """The blobs of a store's scoped values."""

    def __init__(self, store: Primitives, blobs: Blobs) -> None:
        self._store = store
        self._blobs = blobs

    async def put(self, data: bytes) -> tuple[str, str]:
        """Store bytes; return the blob's name and their SHA-256. Errors as `Blobs.put`."""
        sha256 = await _sha256(data)
        name = f"scoped-{sha256}-{secrets.token_hex(8)}"
        await self._blobs.put(name, data, sha256=sha256, ttl=None)
        return name, sha256

    async def get(self, name: str, sha256: str) -> bytes | None:
        """Return the bytes; None if they are gone, or are not those. Errors as `Blobs.get`."""
        data = await self._blobs.get(name)
        return data if data is not None and await _sha256(data) == sha256 else None

    async def delete(self, name: str) -> None:
        """Remove a blob. Errors as `Blobs.delete`."""
        await self._blobs.delete(name)

    async def clear(self) -> None:
        """Remove every blob that an index names. Errors as `Journal.read`, `Blobs.delete`."""
        for subject in await self._store.forked_log.subjects(scopes.kind.name):
            index = await self._store.read(scopes.kind, *subject.keys, consistency="strong")
            for name in list(index.state.blobs):
                await self._blobs.delete(name)


async def _sha256(data: bytes) -> str:
    if len(data) < _HASHED_IN_A_THREAD:
        return hashlib.sha256(data).hexdigest()
    return (await asyncio.to_thread(hashlib.sha256, data)).hexdigest()
