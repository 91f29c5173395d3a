"""Where a shard ends is for its leader to say; without one nobody does."""

from __future__ import annotations

import pytest

from foldlog.errors import LogUnavailable
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.stream import StreamClient
from foldlog.log.moments import head
from tests.log.test_lost import OpenLog, open_log

__all__ = ["open_log"]


@pytest.mark.parametrize(("replicas", "led"), [(1, False), (3, True)])
async def test_a_leader_decides_and_so_does_a_stream_without_replicas(
    open_log: OpenLog, monkeypatch: pytest.MonkeyPatch, replicas: int, led: bool
) -> None:
    log = await open_log()
    answering(monkeypatch, replicas, led)
    assert await log.heads() == [7] * 4


async def test_a_replica_without_a_leader_decides_nothing(
    open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await open_log()
    answering(monkeypatch, 3, False)
    with pytest.raises(LogUnavailable, match="no leader"):
        await log.heads()
    with pytest.raises(LogUnavailable, match="no leader"):
        await head(log)
    with pytest.raises(LogUnavailable, match="no leader"):
        await log.check()


def answering(monkeypatch: pytest.MonkeyPatch, replicas: int, led: bool) -> None:
    """Have every stream described by one of so many replicas."""

    async def describe(self: StreamClient) -> wire.StreamDescription:
        return wire.StreamDescription(
            config={"num_replicas": replicas},
            state=wire.StreamState(last_seq=7),
            cluster=wire.Cluster("n1" if led else None),
        )

    monkeypatch.setattr(StreamClient, "describe", describe)
