"""Runs go on at default settings while any node of a cluster is killed."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import foldlog
from tests.faults.storms.cluster import leader
from tests.support.binary import nats_server
from tests.support.cluster import LocalCluster
from tests.support.stores import fresh_namespace

pytestmark = pytest.mark.skipif(nats_server() is None, reason="no nats-server is installed here")

RUNS = 4
STEPS = 20
_TIME = 240.0  # seconds; a run waits up to a minute for each call


@pytest.mark.long
@pytest.mark.parametrize("behind", range(3), ids=["the leader", "a replica", "the other replica"])
async def test_a_change_of_leader_is_nobodys_death(behind: int) -> None:
    done, under_way = Counter[str](), asyncio.Event()

    async def work(run: foldlog.Run, n: int) -> None:
        async def effect(name: str) -> str:
            done[name] += 1
            if len(done) >= RUNS * STEPS // 4:
                under_way.set()
            return name

        for step in range(STEPS):
            assert await run.step(f"s{step}", effect, f"{n}/{step}") == f"{n}/{step}"

    async with LocalCluster() as cluster, asyncio.timeout(_TIME):
        namespace = fresh_namespace()
        async with foldlog.connect(",".join(cluster.urls), namespace=namespace) as store:

            async def whole(n: int) -> None:
                async with store.run(f"run {n}", session_id="ann") as run:
                    await work(run, n)

            async with asyncio.TaskGroup() as group:
                for n in range(RUNS):
                    group.create_task(whole(n))
                await under_way.wait()
                await cluster.kill((await leader(cluster, namespace) + behind) % 3)
            tasks = await store.list_tasks("ann")
            assert [task.status.value for task in tasks] == ["COMPLETE"] * RUNS
    assert set(done.values()) == {1}
    assert len(done) == RUNS * STEPS
