"""Reads while a leader has lost its followers, and goes on believing that it leads."""

from __future__ import annotations

import asyncio

import pytest

import foldlog
from foldlog import LogUnavailable
from tests.support.binary import nats_server
from tests.support.build import update
from tests.support.cluster import LocalCluster

pytestmark = pytest.mark.skipif(nats_server() is None, reason="no nats-server is installed here")

_RECOVERY = 60.0  # seconds; an election takes up to ten


async def test_a_leader_without_a_majority_answers_strong_reads_and_passes_no_barrier() -> None:
    async with LocalCluster() as cluster:
        async with foldlog.connect(cluster.urls[0]) as store:
            await store.save_update(update("before"))
            leader = (await store.health()).streams[0].leader
        leading = cluster.names.index(str(leader))
        followers = [node for node in range(3) if node != leading]

        async with foldlog.connect(cluster.urls[leading], timeout=2.0) as store:
            await store.barrier()
            assert await ids(store) == ["before"]
            for node in followers:
                cluster.freeze(node)
            try:
                assert await ids(store) == ["before"]
                with pytest.raises(LogUnavailable):
                    await store.barrier()
            finally:
                for node in followers:
                    cluster.thaw(node)
            async with asyncio.timeout(_RECOVERY):
                while True:
                    try:
                        await store.barrier()
                    except LogUnavailable:
                        continue
                    break
            assert await ids(store) == ["before"]


async def ids(store: foldlog.Store) -> list[str]:
    found = await store.list_updates("session", consistency="strong")
    return [item.update_id for item in found]
