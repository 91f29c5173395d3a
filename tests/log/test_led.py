"""What is decided on is what a shard's leader says."""

from __future__ import annotations

import pytest

from foldlog.errors import LogUnavailable
from foldlog.log.led import led
from foldlog.log.memory import MemoryLog
from foldlog.log.moments import head
from foldlog.log.port import StreamInfo


class Replicated(MemoryLog):
    """A log with as many replicas as it is told, of which one leads, or none."""

    replicas = 3
    leader: str | None = None

    async def streams(self) -> list[StreamInfo]:
        told = await super().streams()
        return [each._replace(replicas=self.replicas, leader=self.leader) for each in told]


async def test_a_replica_without_a_leader_decides_nothing() -> None:
    log = Replicated()
    with pytest.raises(LogUnavailable, match="no leader"):
        await led(log)
    with pytest.raises(LogUnavailable, match="no leader"):
        await head(log)


@pytest.mark.parametrize(("replicas", "leader"), [(1, None), (1, "n1"), (3, "n1")])
async def test_a_leader_does_and_so_does_who_is_alone(replicas: int, leader: str | None) -> None:
    log = Replicated()
    log.replicas, log.leader = replicas, leader
    assert await led(log) == await log.streams()
