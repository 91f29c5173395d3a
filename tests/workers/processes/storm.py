"""Many runs over some workers that are killed, frozen and stopped; what became of each."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import foldlog
from foldlog import AlreadyAnswered, FoldlogError, LogUnavailable, NotWaiting, kinds
from foldlog.models import Waiting, WaitingKind
from foldlog.sessions import IllegalTransition
from foldlog.store.core import core_of
from foldlog_projections.runs import queues
from foldlog_projections.runs.runs import Opened, Started
from tests.faults.checker import Violation
from tests.faults.storms.figures import Figures
from tests.support.cluster import LocalCluster
from tests.support.stores import fresh_namespace
from tests.support.workers import StartWorker, Worker, starting
from tests.workers.processes.worker import LEASE, STEPS

WORKERS = 4
_FROZEN_SECONDS = 10 * LEASE
_CANCELLED = 0.05


class Storm:
    """Runs, by name of their sessions, and what befalls their workers. `broken` says what broke."""

    def __init__(self, store: foldlog.Store, effects: Path, runs: int, seed: int) -> None:
        self.store = store
        self.effects = effects
        self.names = [f"r{seed}-{n}" for n in range(runs)]
        self.chance = random.Random(seed)
        self.counts = Counter[str]()
        self.broken: list[str] = []
        self.kill_server: Callable[[], Awaitable[None]] | None = None
        self._workers: list[Worker] = []
        self._thawing: list[asyncio.Task[None]] = []

    async def run(
        self, start: StartWorker, kills: int, freezes: int, server_kills: int, seconds: float
    ) -> None:
        """Have all runs done, and see what became of them."""
        self._start = start
        self._workers = [await self._begun() for _ in range(WORKERS)]
        for name in self.names:
            await self.store.start("job", seconds=self.chance.choice([0.0, 0.0, 2.5]), id=name)
        side = [asyncio.create_task(self._be_asked()), asyncio.create_task(self._cancel())]
        befalling = asyncio.create_task(self._befall(kills, freezes, server_kills))
        try:
            async with asyncio.timeout(seconds):
                await befalling
                for name in self.names:
                    await self._ended(name)
        except TimeoutError:
            await self._tell_what_hangs()
        finally:
            for task in (*side, befalling, *self._thawing):
                task.cancel()
            await asyncio.wait([*side, befalling, *self._thawing])
        for each in self._workers:
            os.kill(each.process.pid, signal.SIGTERM)
        for each in self._workers:
            await each.finish()
        for name in self.names:
            await self._judge(name)

    async def _begun(self) -> Worker:
        worker = await self._start()
        assert await worker.hear() == ["ready"]
        return worker

    async def _befall(self, kills: int, freezes: int, server_kills: int) -> None:
        blows = ["kill"] * kills + ["freeze"] * freezes + ["server"] * server_kills
        self.chance.shuffle(blows)
        for blow in blows:
            await asyncio.sleep(self.chance.random() * 0.5)
            self.counts[blow] += 1
            n = self.chance.randrange(WORKERS)
            if blow == "kill":
                await self._workers[n].kill()
                self._workers[n] = await self._begun()
            elif blow == "freeze":
                self._freeze(self._workers[n])
            elif self.kill_server is not None:
                await self.kill_server()
            else:
                server = core_of(self.store).backend.server
                assert server is not None
                if server.pid is None:
                    self.counts[blow] -= 1  # it is not back from the blow before
                    continue
                with suppress(ProcessLookupError):
                    os.kill(server.pid, signal.SIGKILL)

    def _freeze(self, worker: Worker) -> None:
        async def thaw() -> None:
            try:
                await asyncio.sleep(_FROZEN_SECONDS)
            finally:
                with suppress(ProcessLookupError):
                    os.kill(worker.process.pid, signal.SIGCONT)

        with suppress(ProcessLookupError):
            os.kill(worker.process.pid, signal.SIGSTOP)
            self._thawing.append(asyncio.create_task(thaw()))

    async def _cancel(self) -> None:
        """Cancel some of the runs, at any of their moments."""
        chosen = [each for each in self.names if self.chance.random() < _CANCELLED]
        for name in chosen:
            await asyncio.sleep(self.chance.random())
            with suppress(IllegalTransition):
                while True:
                    try:
                        await self.store.queues.handle(name).cancel("storm")
                        self.counts["cancelled"] += 1
                        break
                    except LogUnavailable:
                        continue

    async def _be_asked(self) -> None:
        """Be the person that the runs wait for: who looks whether a step has happened."""
        async for item in self.store.watch_waiting():
            while True:
                try:
                    with suppress(AlreadyAnswered, NotWaiting):
                        if item.kind is WaitingKind.QUESTION:
                            await self.store.answer(item.id, "yes")
                        else:
                            await self._settle(item)
                    break
                except FoldlogError:  # the server is away
                    await asyncio.sleep(0.1)

    async def _settle(self, item: Waiting) -> None:
        assert item.session_id is not None
        assert item.task_id is not None
        if not self._has_happened(item):
            # Whoever began it may be frozen, or slow, and about to do it.
            opened = owner = 0
            key = kinds.runs(item.session_id, item.task_id)
            for each in await self.store.items(key, limit=10_000):
                if isinstance(each.record, Opened):
                    opened = each.record.pid
                elif isinstance(each.record, Started) and each.record.step == item.step:
                    owner = opened
            for n, worker in enumerate(self._workers):
                if worker.process.pid == owner:
                    self.counts["killed to be sure"] += 1
                    await worker.kill()
                    self._workers[n] = await self._begun()
        self.counts["doubtful steps"] += 1
        if self._has_happened(item):
            await self.store.confirm(item.id, item.step)
        else:
            await self.store.retract(item.id)

    def _has_happened(self, item: Waiting) -> bool:
        return f"{item.task_id} {item.step}" in self._effects(str(item.session_id))

    def _effects(self, session_id: str) -> list[str]:
        path = self.effects / session_id
        return path.read_text().splitlines() if path.exists() else []

    async def _ended(self, name: str) -> None:
        while True:
            with suppress(LogUnavailable, foldlog.RunCancelled, foldlog.RunFailed):
                await self.store.queues.handle(name).result()
            with suppress(LogUnavailable):
                status = await self.store.queues.handle(name).status()
                if status.value in ("COMPLETE", "FAILED", "CANCELLED"):
                    return

    async def _judge(self, name: str) -> None:
        tasks = await self.store.list_tasks(name)
        statuses = {each.task_id: each.status.value for each in tasks}
        errors = [each.error for each in tasks if each.error]
        done = self._effects(name)
        own = [each.split()[1] for each in done if each.startswith(f"{name} ")]
        self.counts[statuses[name]] += 1
        if statuses[name] == "COMPLETE":
            given = await self.store.queues.handle(name).result()
            self._check(name, own == STEPS, f"effects {own}")
            self._check(name, done.count("child c1") == 1, f"effects of the child: {done}")
            self._check(name, given == "yes child", f"gave {given!r}")
        else:
            self._check(name, statuses[name] == "CANCELLED", f"is {statuses[name]}: {errors}")
            self._check(name, own == STEPS[: len(own)], f"effects {own}")
            self._check(name, {*statuses.values()} <= {"CANCELLED", "COMPLETE"}, f"{statuses}")
        self._check(name, done.count("child c1") <= 1, f"the child's effects {done}")

    def _check(self, name: str, is_kept: bool, found: str) -> None:
        if not is_kept:
            self.broken.append(f"{name}: {found}")

    async def _tell_what_hangs(self) -> None:
        waits = [each.id for each in await self.store.waiting()]

        working = [each._asdict() for each in await self.store.queues.workers()]
        for name in self.names:
            run = self.store.queues.handle(name)
            status = (await run.status()).value
            if status not in ("COMPLETE", "CANCELLED"):
                items = await self.store.items(kinds.runs(name, name), limit=10_000)
                tail = [f"{each.position} {each.type}" for each in items][-8:]
                said = await self._said_of(name)
                self.broken.append(f"{name}: no end: {status} {tail}, {said}, {waits} {working}")

    async def _said_of(self, name: str) -> list[str]:
        """What the queues have on record of a run."""
        key = queues.kind(core_of(self.store).namespace.key_on(0, queues.kind.name))
        items = await self.store.items(key, limit=100_000)
        return [
            f"{each.position} {each.record} {each.writer[:4]}"
            for each in items
            if getattr(each.record, "run", "") == name
        ]


async def storm(
    where: str,
    effects: Path,
    *,
    runs: int,
    kills: int,
    freezes: int = 0,
    server_kills: int = 0,
    seed: int = 1,
    seconds: float = 120.0,
    kill_server: Callable[[], Awaitable[None]] | None = None,
) -> Storm:
    """Have a storm at a URL or in a data directory. `effects` is a directory.

    `kill_server` kills one, and has it come back. None: it is the embedded one.
    """
    namespace = fresh_namespace()
    args = (where, namespace, effects)
    kept: dict[str, Any] = {"url": where} if "://" in where else {"path": where}
    async with (
        foldlog.connect(**kept, namespace=namespace) as store,
        starting(Path(__file__).with_name("worker.py"), *args) as start,
    ):
        found = Storm(store, effects, runs, seed)
        found.kill_server = kill_server
        await found.run(start, kills, freezes, server_kills, seconds)
    return found


async def worker_kills(directory: Path, runs: int, seed: int) -> Figures:
    """So many runs on an embedded server, with a kill for twenty of them."""
    effects = _made(directory.with_name("effects"))
    blows = {"kills": runs // 20, "freezes": runs // 100, "server_kills": runs // 200}
    found = await storm(
        str(_made(directory)), effects, runs=runs, seed=seed, seconds=_patience(runs), **blows
    )
    return _figures("workers", found)


async def worker_kills_on_three(directory: Path, runs: int, seed: int) -> Figures:
    """The same on three nodes, one of which is killed at a time."""
    effects = _made(directory)
    async with LocalCluster() as cluster:

        async def kill_a_node() -> None:
            node = random.Random(time.monotonic_ns()).randrange(3)
            await cluster.kill(node)
            await asyncio.sleep(5)
            await cluster.start(node)

        blows = {"kills": runs // 20, "freezes": runs // 100, "server_kills": runs // 200}
        found = await storm(
            ",".join(cluster.urls),
            effects,
            runs=runs,
            seed=seed,
            seconds=_patience(runs),
            kill_server=kill_a_node,
            **blows,
        )
    return _figures("workers on three nodes", found)


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _patience(runs: int) -> float:
    return max(120.0, 1.5 * runs)


def _figures(what: str, found: Storm) -> Figures:
    figures = Figures(f"processes of {what}")
    figures.counts += found.counts
    figures.broken += [Violation("worker", each) for each in found.broken]
    return figures
