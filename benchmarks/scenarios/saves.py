"""Durable saves by many writers, each awaiting one save after another."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import workload
from benchmarks.bench import Bench
from benchmarks.contenders.contender import Saves
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.contenders.hybrid import Hybrid
from benchmarks.contenders.jetstream import Batches, Publish
from benchmarks.contenders.penguiflow import InMemory
from benchmarks.contenders.postgres import Postgres
from benchmarks.contenders.sqlite import Sqlite
from benchmarks.measuring import Measure, Ref, percentile
from benchmarks.scenarios.timing import Timing, in_waves, side_by_side

WRITERS = (1, 16, 64, 256, 512)
SESSIONS = 100
BATCH = 1000
"""Messages in a batch of the ceiling, whatever the number of writers: the most a server takes."""

CONTENDERS: tuple[type[Saves], ...] = (
    Foldlog,
    Publish,
    Batches,
    Postgres,
    Hybrid,
    Sqlite,
    InMemory,
)


async def run(bench: Bench) -> None:
    """Compare all contenders at each number of writers."""
    bench.begin(
        "saves",
        "Durable saves by many writers",
        f"Updates of some 500 bytes on {SESSIONS} sessions; each writer awaits its save before the "
        f"next. JetStream batch is the ceiling of unpacked records: batches of {BATCH} messages, "
        "one after another, at any number of writers.",
    )
    await measure(bench, bench.size(WRITERS, (1, 64, 512)), CONTENDERS)

    def rate(writers: int, contender: str) -> Ref:
        return Ref(case(writers), contender, Measure.RATE)

    ours, peer = Foldlog.name, Postgres.name
    bench.expect(
        "saves, 512 writers, over PostgreSQL", rate(512, ours), rate(512, peer), at_least=12
    )
    bench.expect(
        "saves, 512 writers, over the raw atomic-batch ceiling",
        rate(512, ours),
        rate(512, Batches.name),
        at_least=1.2,
    )
    bench.expect("saves, 64 writers, over PostgreSQL", rate(64, ours), rate(64, peer), at_least=4)


async def measure(bench: Bench, writers: Sequence[int], contenders: Sequence[type[Saves]]) -> None:
    """Record each contender's rate and latencies at each number of writers."""
    async with bench.opened(contenders) as opened:
        for count in writers:
            saves = {each.name: await _warmed_up(bench, each, count) for each in opened}
            for contender in bench.turns(opened):
                timing = await _timed(contender, count, saves[contender.name])
                bench.record(case(count), contender.name, Measure.RATE, timing.rate)
                for measure, percent in ((Measure.P50, 50), (Measure.P99, 99)):
                    value = percentile(timing.calls, percent)
                    bench.record(case(count), contender.name, measure, value)
            bench.say(f"  {case(count)}")


def case(writers: int) -> str:
    """What the case of so many writers is called."""
    return f"{writers} writer" if writers == 1 else f"{writers} writers"


async def _warmed_up(bench: Bench, contender: Saves, writers: int) -> int:
    """Return how many saves a writer makes in a round, for it to last about a second."""
    seconds, least, most = bench.size((1.0, 4, 20_000), (0.08, 1, 1_500))
    first = await _timed(contender, writers, bench.size(4, 1) if writers > 1 else 50)
    wanted = min(first.rate * seconds, most)
    return max(round(wanted / writers), least)


async def _timed(contender: Saves, writers: int, saves: int) -> Timing:
    if isinstance(contender, Batches):
        batches = max(writers * saves // BATCH, 1)
        waves = [workload.updates(BATCH, SESSIONS) for _ in range(batches)]
        return await in_waves(contender.save_together, waves)
    work = [[workload.update(number % SESSIONS) for _ in range(saves)] for number in range(writers)]
    return await side_by_side(contender.save, work)
