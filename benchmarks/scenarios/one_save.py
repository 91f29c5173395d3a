"""One awaited save, nobody else writing."""

from __future__ import annotations

from benchmarks import workload
from benchmarks.bench import Bench
from benchmarks.contenders.contender import Saves
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.contenders.jetstream import Publish
from benchmarks.contenders.penguiflow import InMemory
from benchmarks.contenders.postgres import Postgres
from benchmarks.contenders.sqlite import Sqlite
from benchmarks.measuring import Measure, Ref, percentile
from benchmarks.scenarios.timing import one_by_one

CONTENDERS: tuple[type[Saves], ...] = (Foldlog, Publish, Postgres, Sqlite, InMemory)
CASE = "one save"


async def run(bench: Bench) -> None:
    """Record the median and the 99th percentile of a save's time."""
    saves = bench.size(500, 60)
    bench.begin(
        "one-save",
        "One awaited durable save",
        f"{saves} saves one after another in each round, on one session.",
    )
    async with bench.opened(CONTENDERS) as opened:
        for contender in opened:
            await one_by_one(contender.save, workload.updates(50, 1))
        for contender in bench.turns(opened):
            timing = await one_by_one(contender.save, workload.updates(saves, 1))
            for measure, percent in ((Measure.P50, 50), (Measure.P99, 99)):
                bench.record(CASE, contender.name, measure, percentile(timing.calls, percent))

    def median(contender: str) -> Ref:
        return Ref(CASE, contender, Measure.P50)

    ours = median(Foldlog.name)
    bench.expect("one save, over one raw publish", ours, median(Publish.name), at_most=1.15)
    bench.expect("one save, over PostgreSQL", ours, median(Postgres.name), at_most=0.75)
