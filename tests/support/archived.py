"""A log of which everything stands in the archive as soon as it was appended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import foldlog
from foldlog.log.archive import ArchivedLog, ArchiveLimits, Archiver, Segments
from foldlog.log.archive.places import Directory
from foldlog.log.port import Append, Log
from foldlog.log.relay import Relay
from tests.support.stores import fresh_namespace

EAGER = ArchiveLimits(hot_bytes=0, segment_bytes=64 * 1024, largest=1024 * 1024)


class EagerlyArchived(ArchivedLog):
    """Archives all that the log has after each append."""

    def __init__(self, below: Log, directory: Path) -> None:
        super().__init__(below, Segments(Directory(directory)))
        self.manifests.believed = 0.0
        self._archiver = Archiver(self, EAGER)
        self._archiving = asyncio.Lock()

    def append(
        self, appends: Sequence[Append], *, atomic: bool = False
    ) -> Coroutine[object, object, list[int]]:
        return self._append(super().append(appends, atomic=atomic))

    async def _append(self, appending: Coroutine[object, object, list[int]]) -> list[int]:
        seqs = await appending
        async with self._archiving:
            await self._archiver.run(everything=True)
        return seqs


class EagerBackend:
    """Stores over one eagerly archived log in memory."""

    name = "archived"

    def __init__(self, directory: Path) -> None:
        self._memory = foldlog.memory_store(namespace=fresh_namespace())
        self._log = EagerlyArchived(self._memory.log, directory)

    async def open(self, **options: Any) -> foldlog.Store:
        """Another store on the same data."""
        memory: Any = self._memory.log
        opened = foldlog.memory_store(log=memory, **options)
        backend = opened._core.backend._replace(log=Kept(self._log))
        return foldlog.Store(backend, opened._core.options)

    async def close(self) -> None:
        """Let go of the archive."""
        await self._log.close()


class Kept(Relay):
    """A log that several stores share: closing one leaves it."""
