"""Checkpoints of a history that grows: what they take in the log, and how long."""

from __future__ import annotations

import datetime as dt

from benchmarks import workload
from benchmarks.bench import Bench
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.measuring import Measure, Ref
from benchmarks.scenarios.timing import one_by_one
from foldlog.integrations.rh_agents import StateBackend, StateSnapshot, StateStatus

WHOLE = "snapshots saved whole"


async def run(bench: Bench) -> None:
    """Record the bytes in the log after so many checkpoints, and the time of one."""
    counts = bench.size((100, 400, 1600), (25, 100))
    bench.begin(
        "checkpoints",
        "Checkpoints of a growing history",
        f"A checkpoint after each step of an execution, each step {len(workload.TEXT)} bytes of "
        f'result. foldlog appends what has changed; "{WHOLE}" saves each checkpoint as a new '
        "state, without a predecessor.",
    )
    async with bench.opened((Foldlog,)) as opened:
        for contender in opened:
            for turn in range(bench.rounds):
                for count in counts:
                    await _checkpoints(bench, contender, count, f"{turn}", whole=False)
                    await _checkpoints(bench, contender, count, f"{turn}", whole=True)
    few, many = counts[-2:]
    for name, what in ((Foldlog.name, "foldlog"), (WHOLE, WHOLE)):
        bench.expect(
            f"{what}: bytes of {many:,} checkpoints over those of {few:,}, a quarter",
            Ref(_case(many), name, Measure.STORED),
            Ref(_case(few), name, Measure.STORED),
            **{"at_most": 4.5} if name == Foldlog.name else {"at_least": 8.0},
        )


async def _checkpoints(
    bench: Bench, contender: Foldlog, count: int, run: str, *, whole: bool
) -> None:
    states = StateBackend(contender.store)
    events: list[dict[str, str]] = []

    async def checkpoint(number: int) -> None:
        events.append({"address": f"agent::step-{number}", "result": workload.TEXT})
        now = dt.datetime.now(dt.UTC).isoformat()
        snapshot = StateSnapshot(
            state_id=f"{run}-{count}" + (f"-{number}" if whole else ""),
            created_at=now,
            updated_at=now,
            status=StateStatus.RUNNING,
            execution_state={"history": {"events": events}, "storage": {"data": {"n": number}}},
        )
        await states.save_state(snapshot)

    before = await _stored(contender)
    timing = await one_by_one(checkpoint, range(count))
    name = WHOLE if whole else contender.name
    bench.record(_case(count), name, Measure.STORED, await _stored(contender) - before)
    bench.record(_case(count), name, Measure.TIME, timing.seconds / count)


async def _stored(contender: Foldlog) -> int:
    return sum(stream.bytes for stream in (await contender.store.health()).streams)


def _case(count: int) -> str:
    return f"{count:,} checkpoints"
