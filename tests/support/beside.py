"""What is stored beside a log, in memory."""

from __future__ import annotations

from foldlog.log.blobs import Blobs
from foldlog.log.side import MemorySide
from foldlog.log.snapshots import SnapshotStore
from foldlog.subjects import Namespace


class MemoryBlobs(Blobs):
    """Blobs that last as long as the object."""

    def __init__(self) -> None:
        super().__init__(MemorySide(), Namespace())


class MemorySnapshots(SnapshotStore):
    """Snapshots that last as long as the object. `stored` are their bytes by `place`."""

    def __init__(self) -> None:
        side = MemorySide()
        super().__init__(side, Namespace(), lambda shard: "memory")
        self.stored = side.stored
