"""SIGKILL, again and again, of one of three servers: every other time of the one that leads."""

from __future__ import annotations

import asyncio
import random
import time

import foldlog
from tests.faults.storms.crowd import Crowd
from tests.faults.storms.figures import Figures
from tests.faults.storms.patience import PATIENCE, answered
from tests.faults.storms.process import CallingProcess
from tests.support.cluster import LocalCluster

ROUND = 10
"""Kills after which a run is judged and another begins."""


async def node_kills(kills: int, seed: int = 1) -> Figures:
    """Kill a node so many times, each time in the midst of saves."""
    figures = Figures("SIGKILL of one of three servers")
    rng = random.Random(seed)
    async with LocalCluster() as cluster:
        url = ",".join(cluster.urls)
        for first in range(0, kills, ROUND):
            namespace = f"round-{first}"
            async with (
                Crowd(url, namespace, seed + first) as crowd,
                CallingProcess(url, namespace, seed + first) as process,
            ):
                for kill in range(first, min(first + ROUND, kills)):
                    await crowd.progressed(10)
                    leads = kill % 2 == 0
                    if leads:  # the others have all that it has; else it may be any time
                        await caught_up(url, namespace)
                    victim = await leader(cluster, namespace) if leads else rng.randrange(3)
                    await asyncio.sleep(rng.random() * 0.2)
                    killed = time.monotonic_ns()
                    await cluster.kill(victim)
                    what = "leader" if leads else "node"
                    figures.counts[f"{what} kills"] += 1
                    outage = await crowd.recovered(killed)
                    figures.took(f"from a {what} kill to the next ack", outage)
                    await cluster.start(victim)
                await process.stop()
                history = await crowd.told()
                history.ops += process.ops()
                figures.judge(history, str(first))
    return figures


async def caught_up(url: str, namespace: str) -> None:
    """Wait until every replica has all that its leader has."""
    async with foldlog.connect(url, namespace=namespace) as store, asyncio.timeout(PATIENCE):
        while True:
            (stream,) = (await answered(store.health)).streams
            if len(stream.peers_lag) == 2 and not any(stream.peers_lag.values()):
                return


async def leader(cluster: LocalCluster, namespace: str) -> int:
    """The node that leads the namespace's stream; waits until there is one."""
    async with foldlog.connect(",".join(cluster.urls), namespace=namespace) as store:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    name = (await store.health()).streams[0].leader
                except foldlog.LogUnavailable:
                    continue
                if name is not None:
                    return cluster.names.index(name)
