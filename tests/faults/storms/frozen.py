"""A follower that is frozen while many tasks save through it, and goes on.

What it was sent waits in its socket. When it goes on it hands that to the leader, and by then the
tasks may have saved newer states through another node: every second freeze lasts until they have.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import AsyncGenerator
from typing import Final

import nats
import nats.errors

import foldlog
from foldlog.subjects import Namespace
from tests.faults.actor import Actor
from tests.faults.history import AnyOp, History, Save, Timing, log_of
from tests.faults.storms.figures import Figures
from tests.faults.storms.patience import PATIENCE, answered
from tests.support.cluster import LocalCluster

ROUND: Final = 5
"""Freezes after which a run is judged and another begins."""

_FROZEN: Final = 12.0
"""Seconds for which a node is frozen at least: after so many the store has noticed."""

_TASKS: Final = 200
_FAMILIES: Final = ("memory", "tasks", "trajectory", "bindings", "scoped")
_PAUSE: Final = 0.2
"""Seconds between two saves of a task, at most."""

_READS: Final = 0.2
"""How many saves the task reads back, of all."""


async def frozen(freezes: int, seed: int = 1) -> Figures:
    """Freeze, so many times, the follower through which a store saves, and let it go on."""
    figures = Figures("SIGSTOP of the follower that saves go through")
    rng = random.Random(seed)
    async with LocalCluster() as cluster:
        for first in range(0, freezes, ROUND):
            namespace = f"frozen-{first}"
            async with foldlog.connect(",".join(cluster.urls), namespace=namespace) as store:
                ops: list[AnyOp] = []
                async with _saving(store, ops, rng) as saving:
                    for freeze in range(first, min(first + ROUND, freezes)):
                        await saving.progressed()
                        node = await _follower(cluster, store)
                        cluster.freeze(node)
                        try:
                            await asyncio.sleep(_FROZEN)  # a freeze is a time
                            if freeze % 2 == 0:
                                await saving.progressed()
                        finally:
                            cluster.thaw(node)
                        figures.counts["freezes"] += 1
                        took = await saving.progressed()
                        figures.took("from its going on until all are saved again", took)
                async with foldlog.connect(",".join(cluster.urls), namespace=namespace) as auditor:
                    log = await answered(lambda: log_of(auditor))
                    for name, reader in (("open", store), ("auditor", auditor)):
                        actor = Actor(reader, Timing(name, ops, lambda op: None))
                        for subject in log:
                            await actor.read(subject, "strong")
            late = sum(entry.overtaken for entries in log.values() for entry in entries)
            figures.counts["saves that came too late"] += late
            figures.judge(History(ops, log), namespace)
    return figures


class _Saving:
    """Tasks that save, one state after the other, each when the save before it has ended."""

    def __init__(self, store: foldlog.Store, ops: list[AnyOp], rng: random.Random) -> None:
        self._rng = rng
        self._actor = Actor(store, Timing("saver", ops, self._note))
        self._acked = 0
        self._changed = asyncio.Event()
        self.is_stopping = False

    async def run(self, task: int) -> None:
        """Save a counter to one state of each kind after the other."""
        for count in itertools.count():
            for family in _FAMILIES:
                if self.is_stopping:
                    return
                token = f"{task}.{family}.{count}"
                if family == "tasks":
                    token = f"task-{task}#{token}"
                subject = f"{family}/{task}"
                await self._actor.save(subject, token)
                if self._rng.random() < _READS:
                    await self._actor.read(subject, "session")
                await asyncio.sleep(self._rng.random() * _PAUSE)

    async def progressed(self) -> float:
        """Wait until each state may have been saved again; return how many seconds that took."""
        began, wanted = time.monotonic(), self._acked + _TASKS * len(_FAMILIES)
        async with asyncio.timeout(PATIENCE):
            while self._acked < wanted:
                self._changed.clear()
                await self._changed.wait()
        return time.monotonic() - began

    def _note(self, op: AnyOp) -> None:
        self._acked += isinstance(op, Save) and op.outcome == "ok"
        self._changed.set()


@contextlib.asynccontextmanager
async def _saving(
    store: foldlog.Store, ops: list[AnyOp], rng: random.Random
) -> AsyncGenerator[_Saving]:
    saving = _Saving(store, ops, rng)
    async with asyncio.TaskGroup() as tasks:
        for task in range(_TASKS):
            tasks.create_task(saving.run(task))
        yield saving
        saving.is_stopping = True


async def _follower(cluster: LocalCluster, store: foldlog.Store) -> int:
    """The node that a store is connected to, made to follow where it leads."""
    stream = Namespace(store._core.log.namespace.name).stream(0)
    async with asyncio.timeout(PATIENCE):
        while True:
            health = await answered(store.health)
            leader = health.streams[0].leader
            port = health.url.rpartition(":")[2]
            node = next(n for n, url in enumerate(cluster.urls) if url.endswith(f":{port}"))
            if leader is not None and leader != cluster.names[node]:
                return node
            # Whether it stepped down is seen in the next look.
            with contextlib.suppress(nats.errors.Error, OSError):
                async with await nats.connect(cluster.urls[node]) as client:
                    await client.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream}", timeout=5)
