"""Projectors: rows a second into another database, how late they come, and what saves pay."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from itertools import count
from typing import Final, NamedTuple

import foldlog
from benchmarks import workload
from benchmarks.bench import Bench
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.loading import as_saved, load
from benchmarks.measuring import Measure, Ref, percentile
from benchmarks.unavailable import Unavailable
from foldlog import LogItem, LogPosition, Projecting

TARGETS: Final = {"SQLite": 30_000, "DuckDB": 30_000, "PostgreSQL": 15_000}
"""Databases, and the records a second that are asked of each."""

SAVES: Final = 1_000
"""Saves a second beside which rows are to come in time."""

UPDATES: Final = 50
ACTIVE: Final = 100
"""Updates of a session, and sessions that are saved to in turn."""

CASE: Final = "a row for each record"
CPU: Final = "by CPU time of the process"
LATE: Final = "from a save's call to its row's commit"
SAVE: Final = "a save"
COST: Final = "CPU of the process and its server, a save and its row"
NOTHING: Final = "foldlog, no projector"

_numbers: Final = count()


class Call(NamedTuple):
    """A row."""

    session: str
    update: str
    tool: str
    at: float


async def run(bench: Bench) -> None:
    """Record rows a second; then how late rows come while others save, and what saves take."""
    async with bench.opened((Foldlog,)) as [contender]:
        databases = [each for each in TARGETS if await _has(bench, each)]
        await _rows(bench, contender, databases)
    async with bench.opened((Foldlog,)) as [contender]:
        await _late(bench, contender, databases)


async def _has(bench: Bench, database: str) -> bool:
    try:
        await _to(bench, database)
    except Unavailable as reason:
        bench.missing[f"projectors into {database}"] = str(reason)
        return False
    return True


async def _to(bench: Bench, database: str) -> str:
    """The URL of an empty database."""
    name = f"p{next(_numbers)}"
    if database != "PostgreSQL":
        return f"{database.lower()}:///{bench.site.directory(name)}/tables.db"
    import psycopg

    url = await bench.site.postgres()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"create schema {name}")
    return f"{url}&options=-csearch_path%3D{name}"


async def _rows(bench: Bench, contender: Foldlog, databases: list[str]) -> None:
    records = bench.size(400_000, 20_000)
    sessions = records // UPDATES
    bench.begin(
        "projectors",
        "Records projected into another database",
        f"A log of {records:,} updates, a record each, in {sessions:,} sessions of {UPDATES}, "
        f"{ACTIVE} at a time; `foldlog.table` writes a row of four columns for each into an empty "
        "table. One process reads the log and writes. PostgreSQL is as Debian configures it.",
        ours="",  # nobody is compared
    )
    updates = (
        workload.update(number // (ACTIVE * UPDATES) * ACTIVE + number % ACTIVE)
        for number in range(records)
    )
    await load(contender.store, as_saved(updates))
    bench.say(f"  {records:,} updates are in the log")
    for database in bench.turns(databases):
        projecting = Projecting(contender.store, [_calls([])], to=await _to(bench, database))
        cpu, began = time.process_time(), time.perf_counter()
        await projecting.run(once=True)
        cpu, seconds = time.process_time() - cpu, time.perf_counter() - began
        bench.record(CASE, database, Measure.RATE, records / seconds)
        bench.record(CPU, database, Measure.RATE, records / cpu)
        bench.say(
            f"  {database}: {records / seconds:,.0f} a second, {records / cpu:,.0f} by CPU time, "
            f"load {os.getloadavg()[0]:.1f}"
        )
    for database in databases:
        bench.expect(
            f"records a second into {database}",
            Ref(CASE, database, Measure.RATE),
            at_least=TARGETS[database],
        )


async def _late(bench: Bench, contender: Foldlog, databases: list[str]) -> None:
    seconds = bench.size(20.0, 2.0)
    bench.begin(
        "projectors-beside-saves",
        "Rows while saves go on",
        f"{SAVES:,} updates a second are saved for {seconds:.0f} s, and a projector in the same "
        "process writes a row for each.",
        ours="",  # nobody is compared
    )
    for database in bench.turns([NOTHING, *databases]):
        late = list[float]()
        async with _projecting(bench, contender, database, late):
            used = await _used(contender)
            saves = await _save_for(contender, seconds)
            cpu = (await _used(contender) - used) / len(saves)
        bench.record(COST, database, Measure.TIME, cpu)
        bench.record(SAVE, database, Measure.P50, percentile(saves, 50))
        bench.record(SAVE, database, Measure.P99, percentile(saves, 99))
        if late:
            assert len(late) >= len(saves)
            bench.record(LATE, database, Measure.P50, percentile(late, 50))
            bench.record(LATE, database, Measure.P99, percentile(late, 99))
        bench.say(
            f"  {database}: {len(saves) / seconds:,.0f} saves a second, {cpu * 1e6:,.0f} µs of CPU "
            f"each, load {os.getloadavg()[0]:.1f}"
        )
    for database in databases:
        late_ = Ref(LATE, database, Measure.P99)
        bench.expect(f"99 of 100 rows of {database} are there", late_, at_most=0.15)
        save = Ref(SAVE, database, Measure.P50)
        bench.expect(
            f"a save beside a projector into {database}, over one without",
            save,
            save._replace(contender=NOTHING),
            at_most=1.1,
        )


@asynccontextmanager
async def _projecting(
    bench: Bench, contender: Foldlog, database: str, late: list[float]
) -> AsyncIterator[None]:
    """Have a projector follow; how many seconds after its save was called a row was committed."""
    if database == NOTHING:
        yield
        return
    read = list[float]()

    def committed(name: str, position: LogPosition) -> None:
        now = time.time()
        late.extend(now - each for each in read)
        read.clear()

    store, calls = contender.store, _calls(read)
    projecting = Projecting(store, [calls], to=await _to(bench, database))
    following = asyncio.create_task(projecting.run(on_progress=committed))
    # What an earlier turn has left is not late.
    await projecting.caught_up()
    late.clear()
    yield
    await projecting.caught_up()
    projecting.stop()
    await following


async def _save_for(contender: Foldlog, seconds: float) -> list[float]:
    """Save so many updates a second, as they are due; return how long each took."""
    took = list[float]()
    first = time.perf_counter()

    async def save(number: int) -> None:
        began = time.perf_counter()
        await contender.save(workload.update(number % 100))
        took.append(time.perf_counter() - began)

    async with asyncio.TaskGroup() as group:
        for number in range(int(SAVES * seconds)):
            await asyncio.sleep(max(first + number / SAVES - time.perf_counter(), 0))
            group.create_task(save(number))
    return took


async def _used(contender: Foldlog) -> float:
    """Seconds of the processor that this process and its server have taken."""
    embedded = (await contender.store.health()).embedded
    assert embedded is not None
    server = import_module("psutil").Process(embedded.pid).cpu_times()
    return time.process_time() + float(server.user + server.system)


def _calls(read: list[float]) -> foldlog.projectors.TableOfRows:
    @foldlog.table("calls", kinds=["updates"])
    def calls(item: LogItem) -> Call:
        read.append(item.ts)
        update = item.record
        return Call(item.keys[0], item.id, update.content["tool"], item.ts)

    return calls
