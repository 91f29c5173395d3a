"""A write that the leader took while nobody could confirm it."""

from __future__ import annotations

import asyncio

import pytest

import foldlog
from foldlog import AppendUnknown, LogUnavailable
from tests.support.binary import nats_server
from tests.support.build import update
from tests.support.cluster import LocalCluster

pytestmark = pytest.mark.skipif(nats_server() is None, reason="no nats-server is installed here")

_RECOVERY = 60.0  # seconds; an election takes up to ten


async def test_without_a_quorum_a_write_is_never_called_not_committed() -> None:
    async with LocalCluster() as cluster:
        async with foldlog.connect(cluster.urls[0]) as store:
            await store.save_update(update("before"))
            leader = (await store.health()).streams[0].leader
        followers = [node for node, name in enumerate(cluster.names) if name != leader]
        (leading,) = {0, 1, 2} - set(followers)

        async with foldlog.connect(cluster.urls[leading], timeout=2.0) as store:
            for node in followers:
                cluster.freeze(node)
            doubtful = store.save_update(update("doubtful"))
            ended = (await asyncio.gather(doubtful, return_exceptions=True))[0]
            for node in followers:
                cluster.thaw(node)

        async with foldlog.connect(",".join(cluster.urls)) as store, asyncio.timeout(_RECOVERY):
            found = await told(store)
            if ended is None:
                assert found == ["before", "doubtful"]
            else:
                assert isinstance(ended, AppendUnknown)
                assert ended.ids == ["doubtful"]
                assert found in (["before"], ["before", "doubtful"])
            await saved_again(store)
            assert await told(store) == ["before", "doubtful"]


@pytest.mark.long
async def test_a_replica_that_answers_for_want_of_a_leader_is_not_believed() -> None:
    """It may not know what was acked: a position, or a list, would be short and look whole."""
    async with (
        LocalCluster() as cluster,
        asyncio.timeout(_RECOVERY),
        foldlog.connect(cluster.urls[2], timeout=2.0) as store,
    ):
        await store.save_update(update("before"))
        await asyncio.gather(cluster.kill(0), cluster.kill(1))
        while not await is_told_of_no_leader(store):
            pass
        cleared = store.clear(store.log.namespace.name)
        for asked in (store.sessions(), cleared, store.position()):
            with pytest.raises(LogUnavailable, match="has no leader"):
                await asked


async def is_told_of_no_leader(store: foldlog.Store) -> bool:
    """Whether the replica has come to speak for itself; asking takes a while until it does."""
    try:
        await store.sessions()
    except LogUnavailable as error:
        return "has no leader" in str(error)
    return False


async def told(store: foldlog.Store) -> list[str]:
    """What the log holds, once it can be asked; each attempt takes as long as the store waits."""
    while True:
        try:
            found = await store.list_updates("session", consistency="strong")
        except LogUnavailable:
            continue
        return [item.update_id for item in found]


async def saved_again(store: foldlog.Store) -> None:
    """Save as one who was told "unknown" does: until it is known."""
    while True:
        try:
            return await store.save_update(update("doubtful"))
        except (AppendUnknown, LogUnavailable):
            continue
