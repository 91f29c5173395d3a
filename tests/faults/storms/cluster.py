"""SIGKILL, again and again, of one of three servers.

How long writes stop when a leader is gone depends on the others. So a leader is killed either when
both of them have all that it has, or on purpose while one of them has not.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator
from typing import Final

import nats
import nats.errors

import foldlog
from foldlog.subjects import Namespace
from tests.faults.storms.crowd import Crowd
from tests.faults.storms.figures import Figures
from tests.faults.storms.health import ailments, group, healthy
from tests.faults.storms.patience import PATIENCE
from tests.faults.storms.process import CallingProcess
from tests.faults.storms.reopening import false_alarms, reopened
from tests.support.cluster import LocalCluster

ROUND: Final = 10
"""Kills after which a run is judged and another begins."""

_PROMISED: Final = 15.0
"""Seconds for which writes may stop when the leader of a healthy cluster is killed."""

_ALONE: Final = 30.0
"""Seconds after which a killed node is started although nothing was acked meanwhile: where another
has yet to catch up, its stream may have no leader before the third is back (nats-server 2.15)."""

IN_HEALTH: Final = "leader"
"""A kill of a leader whose followers have all that it has."""


async def node_kills(kills: int, seed: int = 1) -> Figures:
    """Kill a node so many times in the midst of saves: a leader in health, or any at any time."""
    figures = Figures("SIGKILL of one of three servers")
    rng = random.Random(seed)
    async with LocalCluster() as cluster:
        storm = _Storm(cluster, figures, rng)
        for first in range(0, kills, ROUND):
            async with storm.round(f"nodes-{first}", seed + first) as crowd:
                for kill in range(first, min(first + ROUND, kills)):
                    await crowd.progressed(10)
                    if kill % 2:
                        await storm.kill(crowd, rng.randrange(3), "node at random", kill)
                        continue
                    leading = await healthy(cluster, crowd, storm.namespace, storm.back)
                    outage = await storm.kill(crowd, _number(cluster, leading), IN_HEALTH, kill)
                    figures.counts["outages above 15 s in health"] += outage > _PROMISED
    return figures


async def lagging_kills(kills: int, seed: int = 1) -> Figures:
    """Kill the leader so many times while a node that was away has yet to catch up."""
    figures = Figures("SIGKILL of a leader, one of whose followers lags")
    rng = random.Random(seed)
    async with LocalCluster() as cluster:
        storm = _Storm(cluster, figures, rng)
        for first in range(0, kills, ROUND):
            async with storm.round(f"lagging-{first}", seed + first) as crowd:
                for kill in range(first, min(first + ROUND, kills)):
                    leading = await healthy(cluster, crowd, storm.namespace, storm.back)
                    victim = _number(cluster, leading)
                    behind = rng.choice([node for node in range(3) if node != victim])
                    await cluster.kill(behind)
                    await crowd.progressed(rng.randint(20, 200))
                    await storm.start(behind)
                    found = await group(cluster, storm.namespace)
                    lags = ailments(found, time.monotonic() - storm.back)
                    what = "leader with a lagging node" if lags else "leader with a node just back"
                    await storm.kill(crowd, victim, what, kill)
    return figures


class _Storm:
    """What the rounds of a storm share. `back`: when the last node came back."""

    def __init__(self, cluster: LocalCluster, figures: Figures, rng: random.Random) -> None:
        self._cluster = cluster
        self._figures = figures
        self._rng = rng
        self._url = ",".join(cluster.urls)
        self.namespace = ""
        self.back = time.monotonic()

    @contextlib.asynccontextmanager
    async def round(self, namespace: str, seed: int) -> AsyncGenerator[Crowd]:
        """Callers in and outside of this process, who are judged at the end."""
        self.namespace = namespace
        async with (
            Crowd(self._url, namespace, seed) as crowd,
            CallingProcess(self._url, namespace, seed) as process,
        ):
            yield crowd
            await process.stop()
            history = await crowd.told()
            history.ops += process.ops()
        history.problems += await false_alarms(self._url, namespace)
        self._figures.judge(history, namespace)
        await self._removed()

    async def kill(self, crowd: Crowd, victim: int, what: str, kill: int) -> float:
        """Kill a node and start it again when saves are acked; return the seconds until then.

        `what` is told in the figures; only `IN_HEALTH` must saves go on without the node.
        """
        figures = self._figures
        await asyncio.sleep(self._rng.random() * 0.2)  # at any moment of a save
        killed = time.monotonic_ns()
        await self._cluster.kill(victim)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(reopened(self._url, self.namespace, crowd, f"r{kill}"))
            recovering = tasks.create_task(crowd.recovered(killed))
            await asyncio.wait([recovering], timeout=None if what == IN_HEALTH else _ALONE)
            if held_up := not recovering.done():
                figures.counts["outages until the killed node was back"] += 1
                await self.start(victim)
        outage = recovering.result()
        figures.counts[f"{what} kills"] += 1
        figures.took(f"from a {what} kill to the next ack", outage)
        elected = self._cluster.led.get(Namespace(self.namespace).stream(0), 0)
        if elected > killed:
            waited = outage - (elected - killed) / 1e9
            figures.took(f"of which after the election, {what} kills", max(waited, 0.0))
        if not held_up:
            await self.start(victim)
        return outage

    async def start(self, node: int) -> None:
        """Start a node that was killed."""
        await self._cluster.start(node)
        self.back = time.monotonic()

    async def _removed(self) -> None:
        """Remove what was judged: servers that start would have to recover it, again and again."""
        namespace = Namespace(self.namespace)
        for stream in (namespace.stream(0), namespace.stream("snapshots")):
            # What is not removed costs time, and nothing else.
            with contextlib.suppress(nats.errors.Error, OSError):
                async with await nats.connect(list(self._cluster.urls)) as client:
                    await client.jetstream().delete_stream(stream)


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
                    return _number(cluster, name)


def _number(cluster: LocalCluster, name: str) -> int:
    return cluster.names.index(name)
