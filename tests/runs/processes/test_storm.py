"""Processes that do one run are killed and frozen while it is paused, cancelled and asked about.

Each step has its effect once, the question has one answer, and one owner writes at a time.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog import AlreadyAnswered, NotWaiting, kinds
from foldlog.errors import NotFound
from foldlog.models import SteeringEvent, SteeringEventType, WaitingKind
from foldlog.runs import RunCancelled
from foldlog.sessions import (
    IllegalTransition,
)
from foldlog_projections.runs import Started
from tests.runs.processes.worker import ASKS_AFTER, STEPS
from tests.support.workers import Worker, starting

ROUNDS = 2

PAUSE, RESUME, CANCEL = (
    SteeringEventType.PAUSE,
    SteeringEventType.RESUME,
    SteeringEventType.CANCEL,
)


class Round:
    """One run, done by two processes at a time, and what befalls it."""

    def __init__(self, store: foldlog.Store, session: str, effects: Path, seed: int) -> None:
        self.store = store
        self.session = session
        self.effects = effects
        self.chance = random.Random(seed)
        self.orders: list[SteeringEventType] = []
        self.answers = 0
        self.frozen: list[Worker] = []

    def done(self) -> list[str]:
        """The effects that there were, in order."""
        return self.effects.read_text().split() if self.effects.exists() else []

    async def steer(self, kind: SteeringEventType) -> None:
        """Order something, if the run can do that now."""
        event = SteeringEvent(session_id=self.session, task_id="job", event_type=kind)
        async with self.store.session(self.session) as session:
            with suppress(IllegalTransition, NotFound):
                await session.steer(event)
                self.orders.append(kind)

    async def answer_all(self) -> None:
        """Be the person that the run waits for: who looks whether a step has happened."""
        async for item in self.store.watch_waiting(session_id=self.session):
            with suppress(AlreadyAnswered, NotWaiting):
                if item.kind is WaitingKind.QUESTION:
                    await self.store.answer(item.id, "yes")
                    self.answers += 1
                elif item.kind is WaitingKind.TASK:
                    await self.steer(RESUME)
                else:
                    if item.step not in self.done():
                        for worker in self.frozen:  # it may be about to do it
                            await ended(worker)
                    if item.step in self.done():
                        await self.store.confirm(item.id)
                    else:
                        await self.store.retract(item.id)

    async def befall(self, worker: Worker) -> bool:
        """Have something happen, now or a little later; return whether the worker is frozen."""
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0)
        match self.chance.randrange(9):
            case 0:
                await worker.kill()
            case 1:
                self.frozen.append(worker)
                with suppress(ProcessLookupError):  # it has ended
                    os.kill(worker.process.pid, signal.SIGSTOP)
                    return True
            case 2:
                await self.steer(PAUSE)
            case 3 if self.chance.random() < 0.2:
                await self.steer(CANCEL)
            case _:
                pass
        return False

    async def work(self, start: Any) -> list[Any]:
        """Have workers do the run until it has ended; return what the last one says."""
        while True:
            worker = await start()
            frozen = False
            with suppress(EOFError):
                while not frozen:
                    said = await worker.hear()
                    if said[0] in ("done", "RunCancelled"):
                        return list(said)
                    if said[0] not in ("opened", "before", "in"):
                        break
                    frozen = await self.befall(worker)
            if frozen:
                other = await self.work(start)  # which takes the run over, when the lease is over
                with suppress(ProcessLookupError):
                    os.kill(worker.process.pid, signal.SIGCONT)
                await worker.hear_rest()
                return other


async def ended(worker: Worker) -> None:
    """Kill a worker that somebody else listens to, and return when it is gone."""
    worker.process.kill()
    while worker.process.returncode is None:  # noqa: ASYNC110 - one may wait for it, who listens
        await asyncio.sleep(0)


async def storm(store: foldlog.Store, path: Path, effects: Path, seed: int) -> None:
    session = f"s{seed}"
    round = Round(store, session, effects, seed)
    args = (path, store.log.namespace.name, session, effects)
    async with starting(Path(__file__).with_name("worker.py"), *args) as start:
        person = asyncio.ensure_future(round.answer_all())
        try:
            async with asyncio.timeout(120):
                ends = list(await asyncio.gather(round.work(start), round.work(start)))
        finally:
            person.cancel()
            await asyncio.wait([person])
    wanted = [f"s{n}" for n in range(1, STEPS + 1)]
    [task] = await store.list_tasks(session)
    items = await store.items(kinds.runs(session, "job"), limit=10_000)
    if CANCEL in round.orders and task.status == "CANCELLED":
        assert ["RunCancelled", None] in ends
        assert round.done() == wanted[: len(round.done())]
        with pytest.raises(RunCancelled):
            await store.run("job", session_id=session)
    else:
        assert task.status == "COMPLETE"
        assert ends == [["done", "yes"], ["done", "yes"]]
        assert round.done() == wanted
        assert [each.type for each in items].count("run.answered") == 1
        await forked(store, session, wanted)
    for kind, until in ((PAUSE, RESUME), (CANCEL, None)):
        await obeyed(store, session, items, kind, until)


async def forked(store: foldlog.Store, session: str, wanted: list[str]) -> None:
    """A fork from before a step does that step and those behind it."""
    for step in (1, ASKS_AFTER, STEPS):
        fork = await store.fork(session, at=f"before step s{step}")
        made = list[str]()
        async with store.run("job", session_id=fork) as run:
            for name in wanted:
                await run.step(name, made.append, name, on_change="keep")
        assert made == wanted[step - 1 :]


async def obeyed(
    store: foldlog.Store,
    session: str,
    items: list[foldlog.Item],
    kind: SteeringEventType,
    until: SteeringEventType | None,
) -> None:
    """After an order at most one step began: the one whose run had looked just before it."""
    orders = await store.items(kinds.steering(session), limit=10_000)
    typed = {e.event_id: e.event_type for e in await store.list_steering(session, limit=10_000)}
    began = [each.position for each in items if isinstance(each.record, Started)]
    for n, order in enumerate(orders):
        if typed[order.id] is not kind:
            continue
        ends = (e.position for e in orders[n:] if typed[e.id] in (until, CANCEL))
        end = next(ends, None) if until is not None else None
        after = [at for at in began if order.position < at and (end is None or at < end)]
        assert len(after) <= 1, (kind, after)


async def test_each_effect_once_and_orders_obeyed(
    embedded_path: Path, namespace: str, tmp_path: Path
) -> None:
    async with foldlog.connect(path=embedded_path, namespace=namespace) as store:
        for seed in range(ROUNDS):
            await storm(store, embedded_path, tmp_path / f"effects{seed}", seed)
