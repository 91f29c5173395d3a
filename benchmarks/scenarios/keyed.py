"""State by key: a session's memory, and a pause that is resumed once."""

from __future__ import annotations

from functools import partial
from itertools import count as counting, islice

from benchmarks import workload
from benchmarks.bench import Bench
from benchmarks.contenders.contender import KeepsState
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.contenders.hybrid import Hybrid
from benchmarks.contenders.penguiflow import InMemory
from benchmarks.contenders.postgres import Postgres
from benchmarks.contenders.sqlite import Sqlite
from benchmarks.measuring import Measure
from benchmarks.scenarios.timing import one_by_one

CONTENDERS: tuple[type[KeepsState], ...] = (Foldlog, Postgres, Hybrid, Sqlite, InMemory)
KEY = "tenant:user:session"


async def run(bench: Bench) -> None:
    """Record the time of saving and of loading memory, and of a pause with its resumption."""
    count = bench.size(200, 30)
    bench.begin(
        "keyed",
        "Memory and pauses",
        f"A memory of three turns saved and loaded under one key, and a pause saved and resumed, "
        f"{count} times a round.",
    )
    numbers = counting()
    async with bench.opened(CONTENDERS) as opened:
        for contender in opened:
            for call in (_save, _load, _pause):
                await call(contender, next(numbers))
        for contender in bench.turns(opened):
            for case, call in (
                ("memory saved", _save),
                ("memory loaded", _load),
                ("pause saved and resumed", _pause),
            ):
                timing = await one_by_one(partial(call, contender), islice(numbers, count))
                bench.record(case, contender.name, Measure.TIME, timing.seconds / count)


async def _save(contender: KeepsState, number: int) -> None:
    await contender.save_memory(KEY, {**workload.memory_state(), "version": number})


async def _load(contender: KeepsState, number: int) -> None:
    assert await contender.load_memory(KEY)


async def _pause(contender: KeepsState, number: int) -> None:
    token = f"token-{number}"
    await contender.pause(token, workload.memory_state())
    assert await contender.resume(token)
