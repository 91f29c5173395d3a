"""Many events in one call."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import workload
from benchmarks.bench import Bench
from benchmarks.contenders.contender import KeepsEvents
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.contenders.hybrid import Hybrid
from benchmarks.contenders.penguiflow import InMemory
from benchmarks.contenders.postgres import Postgres
from benchmarks.contenders.sqlite import Sqlite
from benchmarks.measuring import Measure, Ref
from benchmarks.scenarios.timing import one_by_one
from foldlog import StoredEvent

CONTENDERS: tuple[type[KeepsEvents], ...] = (Foldlog, Postgres, Hybrid, Sqlite, InMemory)
TRACES = 100


async def run(bench: Bench) -> None:
    """Record events a second."""
    count = bench.size(10_000, 1_000)
    case = f"{count:,} events"
    bench.begin(
        "bulk",
        "save_events: many events in one call",
        f"Events of some 700 bytes on {TRACES} traces. PostgreSQL and SQLite take them in one "
        "executemany within one transaction.",
    )
    async with bench.opened(CONTENDERS) as opened:
        for contender in opened:
            await contender.save_events(_events(100))
        for contender in bench.turns(opened):
            calls: list[Sequence[StoredEvent]] = [_events(count)]
            timing = await one_by_one(contender.save_events, calls)
            bench.record(case, contender.name, Measure.RATE, count / timing.seconds)
    bench.expect(
        f"save_events of {count:,}, over PostgreSQL's executemany",
        Ref(case, Foldlog.name, Measure.RATE),
        Ref(case, Postgres.name, Measure.RATE),
        at_least=25,
    )


def _events(count: int) -> list[StoredEvent]:
    return [workload.event(number % TRACES) for number in range(count)]
