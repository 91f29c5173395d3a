"""Reaching the log of a store on a server: what is looked at before anything is appended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from foldlog.log.blobs import Blobs
from foldlog.log.jetstream import JetStreamLog
from foldlog.log.jetstream.blobs import JetStreamBlobs
from foldlog.log.jetstream.snapshots import JetStreamSnapshots
from foldlog.log.led import led
from foldlog.log.port import Log, StreamInfo
from foldlog.log.snapshots import SnapshotStore
from foldlog.log.watermark import Watermarked


class Reached(NamedTuple):
    """A log and what is kept beside it. Whoever has it closes the log, and all is closed.

    `streams`: what its shards looked like; None where nobody asked.
    """

    log: Log
    blobs: Blobs
    snapshots: SnapshotStore
    streams: list[StreamInfo] | None = None


Reach = Callable[[], Awaitable[Reached]]
"""Opens the log. Raises what `foldlog.connect` does."""


async def reached(connected: JetStreamLog, *, with_streams: bool) -> Reached:
    """Hold a log that was just opened against its high-water marks; it is closed if that fails.

    Raises:
        LogUnavailable: nobody answered.
    """
    snapshots = JetStreamSnapshots(connected)
    log = Watermarked(connected, snapshots, extents=connected.extents)
    connected.stand_on(log.prove_for_appends)
    try:
        await log.look()  # before anything is appended, which might hide that something is lost
        streams = await led(log) if with_streams else None
    except BaseException:
        await log.close()
        raise
    return Reached(log, JetStreamBlobs(connected), snapshots, streams)
