"""What archiving costs, and what it spares the server."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from importlib import import_module
from typing import Any, Final

from benchmarks import workload
from benchmarks.bench import Bench
from benchmarks.contenders.archived import Archived
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.loading import as_saved, load, with_spread
from benchmarks.measuring import Measure, Ref, percentile

WRITERS: Final = 256
RATE: Final = 10_000
UPDATES: Final = 50
_PER_SESSION: Final = 2
"""Updates of each of the sessions that come, are archived and do not come again."""

_PART: Final = 100_000
"""Sessions that come before their server's log is archived."""


async def run(bench: Bench) -> None:
    """Record what it costs while writers save, then alone, then the server's memory."""
    if not _has_psutil(bench):
        return
    await _under_load(bench)
    await _alone(bench)
    await _memory(bench)


def _has_psutil(bench: Bench) -> bool:
    try:
        import_module("psutil")
    except ImportError:
        bench.missing["what archiving costs"] = "psutil is not installed"
        return False
    return True


async def _under_load(bench: Bench) -> None:
    seconds = bench.size(40.0, 5.0)
    cases = {"as many as they can": None, f"{RATE:,} a second": RATE}
    bench.begin(
        "archiving",
        "Saves while their log is archived",
        f"{WRITERS} writers save updates on sessions of {UPDATES} for {seconds:.0f} s: as many as "
        f"they can, and {RATE:,} a second. The archived store archives in the same process, pass "
        "after pass, what is over 16 MiB.",
        ours=Archived.name,
    )
    async with bench.opened((Archived, Foldlog)) as opened:
        turns = [(case, contender) for case in cases for contender in opened]
        for case, contender in bench.turns(turns):
            calls = await save_for(contender, seconds, cases[case])
            bench.record(case, contender.name, Measure.RATE, len(calls) / seconds)
            bench.record(case, contender.name, Measure.P50, statistics.median(calls))
            bench.record(case, contender.name, Measure.P99, percentile(calls, 99))
            if isinstance(contender, Archived):
                [archive] = (await contender.store.health()).archive
                bench.say(f"  {len(calls):,} saved, {archive.behind:,} of the log not archived")
    for case in cases:
        bench.expect(
            f"saves while their log is archived, over saves without an archive, {case}",
            Ref(case, Archived.name, Measure.RATE),
            Ref(case, Foldlog.name, Measure.RATE),
            at_least=0.85,
        )


async def save_for(contender: Foldlog, seconds: float, rate: float | None) -> list[float]:
    """Have writers save for so long, each one session after another; return how long each took.

    `rate`: saves a second of all of them, if they can; None: each saves when its last is done.
    """
    calls, sessions = list[float](), itertools.count(time.time_ns())
    first = time.monotonic()

    async def writer(writer: int) -> None:
        for number in itertools.count():
            if not number % UPDATES:
                session = next(sessions)
            if rate is not None:
                due = first + (number * WRITERS + writer) / rate
                await asyncio.sleep(max(due - time.monotonic(), 0))
            began = time.monotonic()
            await contender.store.save_update(workload.update(session))
            now = time.monotonic()
            if now > first + seconds:
                return
            calls.append(now - began)

    async def archiver() -> None:
        while True:
            await contender.store.archive()
            await asyncio.sleep(0.5)

    archiving = asyncio.create_task(archiver()) if isinstance(contender, Archived) else None
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(WRITERS):
                group.create_task(writer(number))
    finally:
        if archiving is not None:
            archiving.cancel()
            await asyncio.gather(archiving, return_exceptions=True)
    return calls


async def _alone(bench: Bench) -> None:
    size = bench.size(400_000, 40_000)
    case = "of 10,000 records"
    bench.begin(
        "archiving-alone",
        "What archiving takes of the processor",
        f"A log of {size:,} updates is archived, all of it, and nobody saves: the processor's time "
        "of the process and of its server, for 10,000 records.",
        ours=Archived.name,
    )
    for _ in range(bench.rounds):
        async with bench.opened((Archived,)) as [contender]:
            await load(contender.store, as_saved(with_spread(size, each=UPDATES, spread=[])))
            before = await _used(contender)
            moved = await contender.store.archive(everything=True)
            after = await _used(contender)
            assert moved.records >= size
        for number, name in enumerate((Archived.name, f"{Archived.name}, its server")):
            used = (after[number] - before[number]) / moved.records * 10_000
            bench.record(case, name, Measure.TIME, used)
        both = (sum(after) - sum(before)) / moved.records * 10_000
        bench.record(case, f"{Archived.name}, both", Measure.TIME, both)
    bench.expect(
        "archiving 10,000 records, processor time with the server's",
        Ref(case, f"{Archived.name}, both", Measure.TIME),
        at_most=1,
    )


async def _memory(bench: Bench) -> None:
    points = bench.size((10_000, 1_000_000), (1_000, 5_000))
    bench.begin(
        "archived-sessions",
        "The server's memory after sessions that were archived",
        f"So many sessions of {_PER_SESSION} updates come, all is archived, and the server starts "
        "anew: its resident memory, and the time until a store that starts it is open. *Before the "
        "start*: the resident memory of the server that took the sessions; Go gives it back late.",
        ours=Archived.name,
    )
    memory, times = dict[int, list[float]](), dict[int, float]()
    async with bench.opened((Archived,)) as [contender]:
        done = 0
        for point in points:
            while done < point:
                part = range(done, min(done + _PART, point))
                updates = (workload.update(number) for number in part for _ in range(_PER_SESSION))
                await load(contender.store, as_saved(updates))
                await contender.store.archive(everything=True)
                done = part.stop
            [stream] = (await contender.store.health()).streams
            memory[point] = [float(_server(await _pid(contender)).memory_info().rss)]
            await contender.store.close()
            began = time.perf_counter()
            await contender.open()
            times[point] = time.perf_counter() - began
            memory[point] += [float(_server(await _pid(contender)).memory_info().rss)]
            bench.say(f"  {point:,} sessions: {stream.subjects:,} subjects in the server")
            assert len(await contender.list_updates(workload.session_id(1))) == _PER_SESSION
    for point in points:
        live, anew = memory[point]
        bench.record(_case(point), Archived.name, Measure.BYTES, anew)
        bench.record(_case(point), f"{Archived.name}, before the start", Measure.BYTES, live)
        bench.record(_case(point), Archived.name, Measure.TIME, times[point])
    first, last = (Ref(_case(point), Archived.name, Measure.BYTES) for point in points)
    what = (
        f"the server's memory after {points[-1]:,} archived sessions, over that after {points[0]:,}"
    )
    bench.expect(what, last, first, at_most=1.2)
    bench.expect(
        f"a start after {points[-1]:,} archived sessions",
        last._replace(measure=Measure.TIME),
        at_most=1,
    )


def _case(sessions: int) -> str:
    return f"{sessions:,} sessions"


async def _used(contender: Foldlog) -> tuple[float, float]:
    """Seconds of the processor that this process and its server have taken."""
    server = _server(await _pid(contender)).cpu_times()
    return time.process_time(), float(server.user + server.system)


async def _pid(contender: Foldlog) -> int:
    embedded = (await contender.store.health()).embedded
    assert embedded is not None
    assert embedded.pid is not None
    return embedded.pid


def _server(pid: int) -> Any:
    return import_module("psutil").Process(pid)
