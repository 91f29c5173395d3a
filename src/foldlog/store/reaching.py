"""Reaching the log of a store on a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from foldlog.log.blobs import Blobs
from foldlog.log.jetstream import JetStreamLog
from foldlog.log.jetstream.blobs import JetStreamBlobs
from foldlog.log.jetstream.snapshots import JetStreamSnapshots
from foldlog.log.port import Log, StreamInfo
from foldlog.log.snapshots import SnapshotStore


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
    """Return a log that was just opened and what stands next to it; it is closed if that fails.

    Raises:
        LogUnavailable: nobody answered.
    """
    try:
        streams = None
        if with_streams:
            heads, found = await connected.heads(), (await connected.info()).streams
            streams = [s._replace(last_seq=head) for s, head in zip(found, heads, strict=True)]
    except BaseException:
        await connected.close()
        raise
    return Reached(connected, JetStreamBlobs(connected), JetStreamSnapshots(connected), streams)
