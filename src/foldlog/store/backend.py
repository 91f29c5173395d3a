"""What a store stands on: a log, and what is stored next to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from foldlog.log.blobs import Blobs
from foldlog.log.jetstream import JetStreamLog
from foldlog.log.jetstream.blobs import JetStreamBlobs
from foldlog.log.jetstream.snapshots import JetStreamSnapshots
from foldlog.log.port import Log
from foldlog.log.snapshots import SnapshotStore
from foldlog.log.watermark import Watermarked


class Backend(NamedTuple):
    """A log and what is stored next to it. Closing the log closes all of it."""

    log: Log
    blobs: Blobs
    snapshots: SnapshotStore | None


Connect = Callable[[], Awaitable[Backend]]
"""Opens the log. Raises what `foldlog.connect` does."""


async def checked(connected: JetStreamLog) -> Backend:
    """Hold a log that was just opened against its high-water marks; it is closed if that fails."""
    snapshots = JetStreamSnapshots(connected)
    log = Watermarked(connected, snapshots, extents=connected.extents)
    connected.stand_on(log.prove_for_appends)
    try:
        await log.look()  # before anything is appended, which might hide that something is lost
    except BaseException:
        await log.close()
        raise
    return Backend(log, JetStreamBlobs(connected), snapshots)
