"""foldlog with an archive in a directory, with the limits that it has by default."""

from __future__ import annotations

from typing import ClassVar

import foldlog
from benchmarks.contenders.foldlog_store import Foldlog


class Archived(Foldlog):
    """The same as `Foldlog`, and its old records stand in segments."""

    name: ClassVar[str] = "foldlog, archived"

    async def another(self) -> foldlog.Store:
        """Another store on the same log and its archive."""
        return await foldlog.connect(
            path=self.path, durability="fsync", archive=self.path / "archive"
        )
