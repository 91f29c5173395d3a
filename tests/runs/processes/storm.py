"""Many runs side by side in pairs of processes that are killed and frozen; what befell each.

A round is one run, which is paused, cancelled and asked about at random, and forked when it has
ended.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import foldlog
from foldlog import AlreadyAnswered, NotFound, NotWaiting, kinds
from foldlog.models import SteeringEvent, SteeringEventType, Waiting, WaitingKind
from foldlog.runs import RunCancelled
from foldlog.sessions import IllegalTransition
from foldlog_projections.runs.runs import Opened, Started
from tests.faults.checker import Violation
from tests.faults.storms.figures import Figures
from tests.runs.processes.worker import RUN, STEPS
from tests.support.stores import fresh_namespace
from tests.support.workers import StartWorker, Worker, starting

SIDE_BY_SIDE = 50
_PROCESSES = 2
KILLS = 10
"""Of each pair of processes, about, and as many times it is frozen."""

PAUSE, RESUME, CANCEL = (
    SteeringEventType.PAUSE,
    SteeringEventType.RESUME,
    SteeringEventType.CANCEL,
)
_WANTED = [f"s{n}" for n in range(1, STEPS + 1)]


class Storm:
    """Some runs, done by two processes at a time. `broken` says which promises were."""

    def __init__(self, store: foldlog.Store, effects: Path, sessions: list[str], seed: int) -> None:
        self.store = store
        self.effects = effects
        self.sessions = sessions
        self.chance = random.Random(seed)
        self.counts = Counter[str]()
        self.broken: list[str] = []
        self.lags: list[float] = []
        self._workers: dict[int, Worker] = {}
        self._ends: dict[str, list[list[object]]] = {session: [] for session in sessions}

    async def run(self, start: StartWorker, seconds: float) -> None:
        """Have all runs done, and see what became of them."""
        person = asyncio.create_task(self._be_asked())
        slots = [asyncio.create_task(self._work(start)) for _ in range(_PROCESSES)]
        every = asyncio.gather(*slots)
        try:
            await asyncio.wait([person, every], timeout=seconds, return_when="FIRST_COMPLETED")
            if person.done():
                person.result()  # raises what stopped it: nobody answers any more
            if not every.done():
                await self._tell_what_hangs()
                return
            await every
        finally:
            for task in (person, *slots):
                task.cancel()
            await asyncio.wait([person, *slots])
        for session in self.sessions:
            await self._judge(session)

    def done(self, session: str) -> list[str]:
        """The effects that a run has had, in order."""
        path = self.effects / session
        return path.read_text().split() if path.exists() else []

    async def _work(self, start: StartWorker) -> None:
        """Have a process do all runs to their ends, and another one where it dies or freezes."""
        left = set(self.sessions)
        while left:
            worker = await start(*sorted(left))
            self._workers[worker.process.pid] = worker
            with suppress(EOFError):
                while left:
                    said = await worker.hear()
                    if said[1] in ("done", "cancelled"):
                        left.discard(said[0])
                        self._ends[said[0]].append(said[1:])
                    else:
                        self.counts[said[1]] += 1
                        await self._befall(worker, said[0])
            if not left:
                await worker.finish()

    async def _befall(self, worker: Worker, session: str) -> None:
        """Have something happen to the process, or to the run that has just said something."""
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0)
        drawn, often = self.chance.random(), KILLS / (10 * len(self.sessions) * _PROCESSES)
        if drawn < often:
            self.counts["kills"] += 1
            await worker.kill()
        elif drawn < 2 * often:
            self.counts["frozen"] += 1
            with suppress(ProcessLookupError):  # it has ended
                os.kill(worker.process.pid, signal.SIGSTOP)
                asyncio.get_running_loop().call_later(1.5, self._thaw, worker)  # > its lease
        elif drawn > 0.9:
            await self._steer(session, PAUSE)
        elif drawn > 0.89:
            await self._steer(session, CANCEL)

    def _thaw(self, worker: Worker) -> None:
        with suppress(ProcessLookupError):
            os.kill(worker.process.pid, signal.SIGCONT)

    async def _steer(self, session_id: str, kind: SteeringEventType) -> None:
        event = SteeringEvent(session_id=session_id, task_id=RUN, event_type=kind)
        async with self.store.session(session_id) as session:
            with suppress(IllegalTransition, NotFound):
                await session.steer(event)
                self.counts[kind.value] += 1

    async def _be_asked(self) -> None:
        """Be the person that the runs wait for: who looks whether a step has happened."""
        async for item in self.store.watch_waiting():
            assert item.session_id is not None
            with suppress(AlreadyAnswered, NotWaiting):
                if item.kind is WaitingKind.QUESTION:
                    await self.store.answer(item.id, "yes")
                elif item.kind is WaitingKind.TASK:
                    await self._steer(item.session_id, RESUME)
                else:
                    await self._settle(item, item.session_id)

    async def _settle(self, item: Waiting, session_id: str) -> None:
        if item.step not in self.done(session_id):
            # Whoever began it may be frozen, or slow, and about to do it.
            owner = None
            for each in await self._records(session_id):
                if isinstance(each.record, Opened):
                    opened = each.record.pid
                elif isinstance(each.record, Started) and each.record.step == item.step:
                    owner = opened
            worker = self._workers.get(owner or 0)
            if worker is not None and worker.process.returncode is None:
                worker.process.kill()
                while worker.process.returncode is None:  # noqa: ASYNC110 - others wait for it, too
                    await asyncio.sleep(0)
        self.counts["doubtful steps"] += 1
        if item.step in self.done(session_id):
            await self.store.confirm(item.id)
        else:
            await self.store.retract(item.id)

    async def _records(self, session_id: str) -> list[foldlog.Item]:
        return await self.store.items(kinds.runs(session_id, RUN), limit=10_000)

    async def _judge(self, session_id: str) -> None:
        done, ends = self.done(session_id), self._ends[session_id]
        [task] = await self.store.list_tasks(session_id)
        items = await self._records(session_id)
        self.counts[task.status.value] += 1
        if task.status == "CANCELLED":
            self._check(session_id, done == _WANTED[: len(done)], f"effects {done}")
            with suppress(RunCancelled):
                await self.store.run(RUN, session_id=session_id)
                self.broken.append(f"{session_id}: a cancelled run was opened")
        else:
            self._check(session_id, task.status == "COMPLETE", f"is {task.status}")
            self._check(session_id, done == _WANTED, f"effects {done}")
            self._check(session_id, ends == [["done", "yes"]] * _PROCESSES, f"ends {ends}")
            answers = [each.type for each in items].count("run.answered")
            self._check(session_id, answers == 1, f"{answers} answers")
            await self._fork(session_id)
        await self._judge_orders(session_id, items)

    def _check(self, session_id: str, is_kept: bool, found: str) -> None:
        if not is_kept:
            self.broken.append(f"{session_id}: {found}")

    async def _fork(self, session_id: str) -> None:
        """A fork from before a step does that step and those behind it."""
        step = self.chance.randrange(1, STEPS + 1)
        fork = await self.store.fork(session_id, at=f"before step s{step}")
        [task] = await self.store.list_tasks(fork)
        if task.status == "PAUSED":  # ordered while its run had just looked; so is the fork, then
            self.counts["forks that were paused"] += 1
            await self._steer(fork, RESUME)
        made = list[str]()
        async with self.store.run(RUN, session_id=fork) as run:
            for name in _WANTED:
                await run.step(name, made.append, name, on_change="keep")
        self._check(session_id, made == _WANTED[step - 1 :], f"a fork before s{step} did {made}")

    async def _judge_orders(self, session_id: str, items: list[foldlog.Item]) -> None:
        """After an order at most one step begins: the one whose run had looked just before it."""
        orders = await self.store.items(kinds.steering(session_id), limit=10_000)
        steering = await self.store.list_steering(session_id, limit=10_000)
        typed = {each.event_id: each.event_type for each in steering}
        began = [each for each in items if isinstance(each.record, Started)]
        for n, order in enumerate(orders):
            if typed[order.id] not in (PAUSE, CANCEL):
                continue
            until = (RESUME, CANCEL) if typed[order.id] is PAUSE else ()
            ends = (each.position for each in orders[n + 1 :] if typed[each.id] in until)
            end = next(ends, None)
            after = [
                each
                for each in began
                if order.position < each.position and (end is None or each.position < end)
            ]
            self.lags += [each.ts - order.ts for each in after]
            found = f"{len(after)} steps began after {typed[order.id].value}"
            self._check(session_id, len(after) <= 1, found)

    async def _tell_what_hangs(self) -> None:
        waiting = await self.store.waiting()
        for session_id, ends in self._ends.items():
            if len(ends) < _PROCESSES:
                tasks = [each.status.value for each in await self.store.list_tasks(session_id)]
                types = [each.type for each in await self._records(session_id)][-8:]
                listed = [each.id for each in waiting if each.session_id == session_id]
                self.broken.append(f"{session_id}: no end; {tasks}, {types}, waiting {listed}")


async def storm(
    store: foldlog.Store, path: Path, effects: Path, rounds: int, seed: int, seconds: float = 120.0
) -> Storm:
    """Some rounds side by side; they are given some seconds. `effects` is a directory."""
    sessions = [f"s{seed}-{n}" for n in range(rounds)]
    found = Storm(store, effects, sessions, seed)
    args = (path, store.log.namespace.name, effects)
    async with starting(Path(__file__).with_name("worker.py"), *args) as start:
        await found.run(start, seconds)
    return found


async def run_kills(directory: Path, rounds: int, seed: int) -> Figures:
    """Have so many rounds, in waves of runs side by side."""
    figures = Figures("processes that do runs")
    for wave in range(-(-rounds // SIDE_BY_SIDE)):
        effects = directory.with_name(f"effects{wave}")
        effects.mkdir()
        async with foldlog.connect(path=directory, namespace=fresh_namespace()) as store:
            found = await storm(store, directory, effects, SIDE_BY_SIDE, seed + wave)
        figures.counts += found.counts
        figures.counts["rounds"] += SIDE_BY_SIDE
        figures.broken += [Violation("run", each) for each in found.broken]
        for lag in found.lags:
            figures.took("from an order until a step that it should have held began", lag)
        sys.stderr.write(f"{figures}\n")
    return figures
