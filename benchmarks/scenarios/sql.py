"""SQL: a query's own time, a sum over all records, and how fast tables catch up."""

from __future__ import annotations

import shutil
import time

from benchmarks import workload
from benchmarks.bench import Bench
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.loading import as_saved, load
from benchmarks.measuring import Measure, Ref

NOTHING = "SELECT 1 in an open store"
SUM = "count(*) by session, caught up"
START = "the same, first of a process, the files there"
FIRST = "catching up with all"
NEW = "a save, and a count that has it"
QUERY = "select session_id, count(*) as n from updates group by all order by all"


async def run(bench: Bench) -> None:
    """Record the time of queries, and records a second that fill a table."""
    count, sessions, queries = bench.size((1_000_000, 1_000, 20), (100_000, 100, 10))
    bench.begin(
        "sql",
        "SQL",
        f"A log of {count:,} updates in {sessions:,} sessions, asked through `store.sql`.",
    )
    async with bench.opened((Foldlog,)) as [contender]:
        updates = (workload.update(number % sessions) for number in range(count))
        await load(contender.store, as_saved(updates))
        for _ in range(bench.rounds):
            await _round(bench, contender, count, queries)
    for case, seconds in ((NOTHING, 0.02), (SUM, 0.15), (START, 0.5)):
        bench.expect(case, Ref(case, Foldlog.name, Measure.TIME), at_most=seconds)


async def _round(bench: Bench, contender: Foldlog, count: int, queries: int) -> None:
    async def asked(query: str) -> float:
        began = time.perf_counter()
        await contender.store.sql(query, timeout=600)
        return time.perf_counter() - began

    await asked("select 1")
    shutil.rmtree(contender.path / "sql", ignore_errors=True)
    seconds = await asked("select count(*) from updates")
    bench.record(FIRST, contender.name, Measure.RATE, count / seconds)
    for case, query in ((NOTHING, "select 1"), (SUM, QUERY)):
        taken = sum([await asked(query) for _ in range(queries)])
        bench.record(case, contender.name, Measure.TIME, taken / queries)
    began = time.perf_counter()
    for _ in range(queries):
        await contender.save(workload.update(1))
        await asked("select count(*) from updates")
    bench.record(NEW, contender.name, Measure.TIME, (time.perf_counter() - began) / queries)
    await contender.reopen()
    bench.record(START, contender.name, Measure.TIME, await asked(QUERY))
