"""What the shards' leaders say of them, and nobody else."""

from __future__ import annotations

from foldlog.errors import LogUnavailable
from foldlog.log.port import Log, StreamInfo


async def led(log: Log) -> list[StreamInfo]:
    """Return what the shards look like now, as their leaders tell it.

    After some seconds without a leader any replica answers for itself (nats-server,
    `jsStreamInfoRequest`), and may not know yet what was acked: what it says is for an operator to
    see, and nothing to decide on.

    Raises:
        LogUnavailable: nobody answered, or a shard has no leader.
    """
    found = await log.streams()
    for stream in found:
        if stream.replicas > 1 and stream.leader is None:
            raise LogUnavailable(f"{stream.name} has no leader, so nobody knows where it ends")
    return found
