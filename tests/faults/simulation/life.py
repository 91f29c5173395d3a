"""A run: a few clients with a few callers each, whatever can go wrong, and an auditor at last.

`world` says what is simulated: "port", the log itself, or "wire", the connection under the real
JetStream log.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any, Literal

from foldlog import Store
from foldlog.store.core import Backend
from foldlog.store.options import Options
from tests.faults.actor import Actor, Script, impatiently
from tests.faults.history import AnyOp, Counting, History, Watch, log_of
from tests.faults.simulation import clock
from tests.faults.simulation.faults import Faults, drawn
from tests.faults.simulation.port import SimulatedLog
from tests.faults.simulation.stream import Stream
from tests.faults.simulation.wire import wired_log
from tests.support.beside import MemoryBlobs

World = Literal["port", "wire"]
MakeLog = Callable[[Stream, random.Random, Faults], Any]

_SETTLED = 400.0
"""Seconds after which nothing is under way any more."""

_QUIET = Faults()


def live(
    seed: int,
    world: World = "port",
    *,
    faults: Faults | None = None,
    make_log: MakeLog | None = None,
) -> History:
    """Live through the run that `seed` makes, and return its history."""
    make = make_log or (SimulatedLog if world == "port" else wired_log)
    return clock.run(lambda loop: _Life(loop, seed, faults, make).lived())


class _Client:
    """A process: a store on a log of its own, and who calls it."""

    def __init__(self, name: str, log: Any, ops: list[AnyOp], moments: Iterator[int]) -> None:
        self.log = log
        self.store = Store(Backend(log, MemoryBlobs()), Options())
        self.recorder = Counting(name, ops, moments)
        self.actor = Actor(self.store, self.recorder)
        self.watches: list[tuple[Watch, asyncio.Task[None]]] = []

    def watch(self, subject: str, since: str | None) -> None:
        """Have a watcher from now on."""
        op = Watch(client=self.recorder.client, subject=subject, since=since)
        watching = asyncio.create_task(self.actor.watch(subject, since, op))
        self.watches.append((op, watching))

    async def end(self) -> list[str]:
        """Let go of everything; return what could not be let go of."""
        for _, watching in self.watches:
            watching.cancel()
        ended = await asyncio.gather(*(w for _, w in self.watches), return_exceptions=True)
        await self.store.close()
        problems = [f"a watcher ended: {e!r}" for e in ended if isinstance(e, Exception)]
        if self.log.following:
            problems.append(f"{self.log.following} subscriptions were left")
        return problems


class _Life:
    def __init__(
        self, loop: clock.VirtualLoop, seed: int, faults: Faults | None, make: MakeLog
    ) -> None:
        self._loop = loop
        self._rng = random.Random(seed)
        random.seed(seed)  # by which decisions that meet each other pause
        self._faults = drawn(self._rng) if faults is None else faults
        self._make = make
        self._keys = self._rng.choice([1, 2, 3])
        self._stream: Stream | None = None
        self._ops: list[AnyOp] = []
        self._moments = itertools.count(1)
        self._problems: list[str] = []

    async def lived(self) -> History:
        stream = self._stream = Stream(self._rng, lag=self._faults.lag)
        names = [f"c{number}" for number in range(self._rng.choice([1, 2, 2, 3]))]
        clients = await asyncio.gather(*map(self._process, names))
        # Nothing goes wrong any more, and nobody saves: watchers come to the end.
        for client in clients:
            client.log.faults = _QUIET
        await asyncio.sleep(_SETTLED)
        for client in clients:
            for op, _ in client.watches:
                op.whole = not stream.unreadable
            self._problems += await client.end()
        damaged = bool(stream.unreadable)
        stream.unreadable.clear()
        log = SimulatedLog(stream, self._rng, _QUIET)
        auditor = _Client("auditor", log, self._ops, self._moments)
        held = await log_of(auditor.store)
        for subject in held:
            if not subject.startswith(("pauses/", "updates/swap")):
                await auditor.actor.read(subject, "strong")
        self._problems += await auditor.end()
        self._problems += self._loop.problems
        left = asyncio.all_tasks() - {asyncio.current_task()}
        self._problems += [f"a task was left: {task!r}" for task in left]
        return History(self._ops, held, self._problems, damaged)

    def _client(self, name: str, faults: Faults) -> _Client:
        assert self._stream is not None
        log = self._make(self._stream, self._rng, faults)
        return _Client(name, log, self._ops, self._moments)

    async def _process(self, name: str) -> _Client:
        """A client's life, up to when its callers are done; some are killed half-way once."""
        lives = self._rng.choice([1, 1, 2])
        for life in range(lives):
            client = self._client(f"{name}.{life}", self._faults)
            callers = self._rng.randint(1, 3)
            if self._rng.random() < 0.7:
                client.watch(f"updates/{self._rng.randrange(self._keys)}", None)
            running = asyncio.gather(
                *(self._call(client, f"{name}.{life}.{number}") for number in range(callers))
            )
            if life + 1 < lives:
                await impatiently(running, self._rng.random() * 10)
                self._problems += await client.end()
            else:
                await running
        return client

    async def _call(self, client: _Client, name: str) -> None:
        rng = random.Random(self._rng.random())
        script = Script(client.actor, rng, name, self._keys)
        for _ in range(rng.randint(4, 14)):
            if rng.random() < self._faults.cancelled:
                await impatiently(script.step(), rng.random() ** 3 * 6)
            else:
                await script.step()
            if rng.random() < 0.3:
                await asyncio.sleep(rng.random() ** 3 * 20)
