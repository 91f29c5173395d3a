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


class Backend(NamedTuple):
    """A log and what is stored next to it. Closing the log closes all of it."""

    log: Log
    blobs: Blobs
    snapshots: SnapshotStore | None


Connect = Callable[[], Awaitable[Backend]]
"""Opens the log. Raises what `foldlog.connect` does."""


def backend_of(connected: JetStreamLog) -> Backend:
    """What a store stands on, of a log that was just opened."""
    return Backend(connected, JetStreamBlobs(connected), JetStreamSnapshots(connected))
