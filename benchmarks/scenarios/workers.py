"""Durable functions that workers do: many at once, one alone, due in one second, and asleep."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from importlib import import_module
from itertools import count
from typing import Final

from benchmarks.bench import Bench
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.contenders.workers import (
    STEPS,
    TOGETHER,
    Dbos,
    DbosThreads,
    FoldlogWorkers,
    Works,
    begun,
    has_begun,
)
from benchmarks.measuring import Measure, Ref, percentile
from benchmarks.scenarios.memory import footprints
from benchmarks.scenarios.timing import one_by_one, side_by_side

CONTENDERS: Final[tuple[type[Works], ...]] = (FoldlogWorkers, Dbos, DbosThreads)
OURS: Final = FoldlogWorkers.name
MANY: Final = f"runs of {STEPS} steps, {TOGETHER} at a time"
ALONE: Final = f"a run of {STEPS} steps, alone"
FIRST: Final = "from start to the first step, alone"
CPU: Final = ("CPU of the process, a run", "CPU with the server's, a run")
POINTS: Final = 5
"""How often memory is looked at; the first time counts as the start."""

_numbers: Final = count()


async def run(bench: Bench) -> None:
    """Compare what runs cost."""
    due = bench.size(1_000, 100)
    bench.begin(
        "workers",
        "Durable functions that a worker does",
        f"One process starts the runs and does them. foldlog's runs go by the queue to a worker "
        f"that takes {TOGETHER} at a time. DBOS begins them at once in the process that starts "
        f"them, as coroutines or as plain functions in threads; only its runs that are due later "
        f"go by a queue, which is looked at once a second and has no limit. Steps do nothing, and "
        f"may be done again after a crash. CPU: with {TOGETHER} at a time. Due: from that moment "
        f"until the last of {due:,} runs has begun; none begins twice.",
        ours=OURS,
    )
    async with bench.opened(CONTENDERS) as opened:
        for contender in opened:
            await one_by_one(contender.do, _ids(10))
        for contender in bench.turns(opened):
            await _together(bench, contender)
            await _alone(bench, contender)
            if contender.name != DbosThreads.name:
                await _due(bench, contender, due)
    assert all(len(times) == 1 for times in begun.values()), "none began twice"
    _expect(bench, due)


async def _together(bench: Bench, contender: Works) -> None:
    ids = _ids(bench.size(640, 128))
    before = await _cpu(contender)
    timing = await side_by_side(contender.do, [ids[n::TOGETHER] for n in range(TOGETHER)])
    bench.record(MANY, contender.name, Measure.RATE, timing.rate)
    for case, began, ended in zip(CPU, before, await _cpu(contender), strict=True):
        bench.record(case, contender.name, Measure.TIME, (ended - began) / len(ids))


async def _alone(bench: Bench, contender: Works) -> None:
    firsts = []

    async def do(id: str) -> None:
        started = time.time()
        await contender.do(id)
        firsts.append(begun[id][0] - started)

    timing = await one_by_one(do, _ids(bench.size(100, 20)))
    bench.record(ALONE, contender.name, Measure.P50, percentile(timing.calls, 50))
    bench.record(FIRST, contender.name, Measure.P50, percentile(firsts, 50))


async def _due(bench: Bench, contender: Works, runs: int) -> None:
    ids, at = _ids(runs), time.time() + bench.size(20, 5)
    work = [ids[n::TOGETHER] for n in range(TOGETHER)]
    await side_by_side(lambda id: contender.do_at(id, at), work)
    assert time.time() < at, "all were started before they were due"
    async with asyncio.timeout(120):
        await asyncio.gather(*(has_begun[id].wait() for id in ids))
    last = max(begun[id][0] for id in ids)
    bench.record(_due_case(runs), contender.name, Measure.TIME, last - at)


def _due_case(runs: int) -> str:
    return f"{runs:,} runs due at once"


async def run_asleep(bench: Bench) -> None:
    """Record the memory of a process of its own, which starts the runs and does them."""
    runs = bench.size(10_000, 500)
    bench.begin(
        "sleepers",
        "Memory while runs sleep",
        f"{runs:,} runs, each in its own session, which sleep for a day: the resident memory "
        "of the process that starts them and does them, and foldlog's also with the embedded "
        "server's, which keeps the timers. A run of DBOS that sleeps stays a coroutine.",
        ours=OURS,
    )
    for name in bench.turns([OURS, Dbos.name]):
        async for point in footprints(name, runs, 1, POINTS):
            if "missing" in point:
                bench.missing[f"{name}, its memory"] = point["missing"]
                break
            for contender, value in point["bytes"].items():
                bench.record(_case(point["sessions"]), contender, Measure.BYTES, value)
    least, most = (Ref(_case(each), OURS, Measure.BYTES) for each in (runs // POINTS, runs))
    what = f"memory with {runs:,} runs asleep, over that with a fifth"
    bench.expect(what, most, least, at_most=1.05)


def _case(runs: int) -> str:
    return f"{runs:,} asleep"


def _expect(bench: Bench, due: int) -> None:
    for other in (Dbos.name, DbosThreads.name):
        for what, measure, bound in (
            (MANY, Measure.RATE, {"at_least": 3.0}),
            (ALONE, Measure.P50, {"at_most": 0.7}),
        ):
            of = Ref(what, OURS, measure)
            bench.expect(f"{what}, over {other}", of, of._replace(contender=other), **bound)
    bench.expect(FIRST, Ref(FIRST, OURS, Measure.P50), at_most=0.01)
    bench.expect(_due_case(due), Ref(_due_case(due), OURS, Measure.TIME), at_most=5.0)


def _ids(runs: int) -> Sequence[str]:
    return [f"run-{next(_numbers)}" for _ in range(runs)]


async def _cpu(contender: Works) -> tuple[float, float]:
    """Seconds that this process has used, and with the servers'."""
    process = import_module("psutil").Process
    used = [process(), *process().children(recursive=True)]
    if isinstance(contender, Foldlog):  # its server is nobody's child
        embedded = (await contender.store.health()).embedded
        used += [process(embedded.pid)] if embedded else []
    return time.process_time(), sum(sum(each.cpu_times()[:4]) for each in used)
