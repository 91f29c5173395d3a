"""Every view folded again from the log."""

from __future__ import annotations

import time

from benchmarks import workload
from benchmarks.bench import Bench
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.measuring import Measure, Ref
from benchmarks.scenarios.timing import side_by_side

PACKED = "as 512 writers on 100 sessions leave it"
SPREAD = "one envelope a record"
CPU = "foldlog, by CPU time"


async def run(bench: Bench) -> None:
    """Record envelopes a second, by the clock and by this process's CPU time."""
    count = bench.size(200_000, 5_000)
    spread = count // 2  # as many records as envelopes: saving them takes longest
    bench.begin(
        "rebuild",
        "Rebuilding all views from the log",
        f"A log of {count:,} updates, or {spread:,} with a record each. The rate by CPU time "
        "counts this process only; the server reads on another core.",
    )
    async with bench.opened((Foldlog, Foldlog)) as opened:
        for case, contender in zip((PACKED, SPREAD), opened, strict=False):
            if case == PACKED:
                # 512 writers keep some five envelopes of each of 100 sessions in flight.
                work = [workload.updates(count // 512, 1) for _ in range(512)]
                for number, own in enumerate(work):
                    for update in own:
                        update.session_id = workload.session_id(number % 100)
                await side_by_side(contender.save, work)
            else:
                sessions = spread // 50
                updates = (workload.update(number % sessions) for number in range(spread))
                await contender.load(updates, together=min(sessions // 2, 512))
        for case, contender in bench.turns(list(zip((PACKED, SPREAD), opened, strict=False))):
            cpu = time.process_time()
            report = await contender.store.rebuild()
            cpu = time.process_time() - cpu
            assert not report.differing
            rate = report.envelopes / report.seconds
            bench.record(case, contender.name, Measure.RATE, rate)
            bench.record(case, CPU, Measure.RATE, report.envelopes / cpu)
    bench.expect(
        "rebuild of all views, envelopes a second",
        Ref(PACKED, Foldlog.name, Measure.RATE),
        at_least=200_000,
    )
