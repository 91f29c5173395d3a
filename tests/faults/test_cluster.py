"""Three servers, of which some are gone, or out of reach of the others."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

import foldlog
from foldlog import LogUnavailable
from tests.faults.checker import judge
from tests.faults.proxy import Proxy
from tests.faults.storms.cluster import leader
from tests.faults.storms.crowd import Crowd
from tests.faults.storms.health import healthy
from tests.faults.storms.patience import PATIENCE, answered
from tests.support.binary import nats_server
from tests.support.cluster import LocalCluster

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(nats_server() is None, reason="no nats-server is installed here"),
]


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    async with LocalCluster() as cluster:
        yield cluster


async def impatient(url: str, namespace: str) -> foldlog.Store:
    """A store each of whose calls takes two seconds at most; opening it may take several."""
    return await answered(lambda: foldlog.connect(url, namespace=namespace, timeout=2))


async def test_a_rolling_restart(cluster: LocalCluster) -> None:
    url = ",".join(cluster.urls)
    async with Crowd(url, "rolling", seed=1) as crowd:
        for node in range(3):
            await crowd.progressed(10)
            await cluster.kill(node)
            await crowd.recovered(time.monotonic_ns())
            await cluster.start(node)
            await healthy(cluster, crowd, "rolling", time.monotonic())
        assert judge(await crowd.told()) == []


async def test_two_of_three_killed_stop_writes_and_lose_none(cluster: LocalCluster) -> None:
    url = ",".join(cluster.urls)
    async with Crowd(url, "two", seed=2) as crowd:
        await crowd.progressed(20)
        async with await impatient(cluster.urls[2], "two") as lonely:
            await cluster.kill(0)
            await cluster.kill(1)
            outcome = await crowd.joined("one more", lonely).save("updates/alone", "alone")
            assert outcome in ("unknown", "refused")
        killed = time.monotonic_ns()
        await asyncio.gather(cluster.start(0), cluster.start(1))
        await crowd.recovered(killed)
        assert judge(await crowd.told()) == []


async def test_a_leader_cut_off_by_a_partition_acks_nothing() -> None:
    cluster = LocalCluster()
    async with AsyncExitStack() as open_:
        routes = {}
        for of, to in itertools.permutations(range(3), 2):
            proxy = Proxy(f"nats-route://127.0.0.1:{cluster.route_ports[to]}")
            routes[of, to] = await open_.enter_async_context(proxy)
            cluster.detours[of, to] = proxy.port
        await open_.enter_async_context(cluster)
        async with foldlog.connect(cluster.urls[0], namespace="parted") as store:
            await store.load_memory_state("key")  # the stream is there
        cut_off = await leader(cluster, "parted")
        majority = ",".join(url for node, url in enumerate(cluster.urls) if node != cut_off)
        lonely = await impatient(cluster.urls[cut_off], "parted")
        open_.push_async_exit(lonely)
        async with Crowd(majority, "parted", seed=3) as crowd:
            await crowd.progressed(10)
            parted = time.monotonic_ns()
            for route, proxy in routes.items():
                if cut_off in route:
                    proxy.hole()
            caller = crowd.joined("one more", lonely)
            assert await caller.save("updates/0", "doubtful") in ("unknown", "refused")
            with pytest.raises(LogUnavailable):
                await lonely.barrier()
            await crowd.recovered(parted)  # the others have elected another
            for proxy in routes.values():
                proxy.heal()
                proxy.cut()
            async with asyncio.timeout(PATIENCE):
                while await caller.save("updates/0", "doubtful") != "ok":
                    pass
            assert judge(await crowd.told()) == []
