"""What durability costs each call of an agent."""

from __future__ import annotations

from itertools import count
from typing import Final

from benchmarks.bench import Bench
from benchmarks.contenders.durable_agents import (
    CALLS,
    BareAgent,
    DbosAgent,
    FoldlogAgent,
    FoldlogRepeatable,
    RunsAgents,
)
from benchmarks.measuring import Measure, Ref, percentile
from benchmarks.scenarios.timing import one_by_one

CONTENDERS: Final[tuple[type[RunsAgents], ...]] = (FoldlogAgent, FoldlogRepeatable, DbosAgent)
OURS: Final = FoldlogAgent.name
ABOVE: Final = "a call, above the bare agent's"
BARE: Final = "a call of the bare agent"

_numbers: Final = count()


async def run(bench: Bench) -> None:
    """Compare the time of runs, one after another, with that of the bare agent."""
    runs = bench.size(200, 30)
    bench.begin(
        "durable",
        "An agent's calls, each on record",
        f"One agent of Pydantic AI: {CALLS} calls of a scripted model and of tools, which answer "
        "at once; the last two tools are called side by side. Bare, with foldlog's capability in a "
        "run, and with Pydantic AI's own one of DBOS in a workflow, whose tools are steps of DBOS. "
        "Each is begun and done in one process, one run after another. Time: what a run takes "
        f"longer than the median of the bare agent just before, divided by {CALLS}; "
        "beginning and ending the run are in it. A step of DBOS is done again if its process dies "
        "in it, as foldlog's model calls and repeatable tools are; foldlog's other tools are on "
        "record before they begin, too.",
        ours=OURS,
    )
    async with bench.opened([BareAgent]) as bare, bench.opened(CONTENDERS) as opened:
        if not bare:
            return
        await _times(bare[0], 10)
        for contender in opened:
            await _times(contender, 10)
            await contender.do(first := f"first-{contender.name}")
            assert await contender.on_record(first) == CALLS, "all calls are on record"
        for contender in bench.turns(opened):
            least = percentile(await _times(bare[0], runs), 50)
            times = await _times(contender, runs)
            bench.record(BARE, bare[0].name, Measure.P50, least)
            for measure, percent in ((Measure.P50, 50), (Measure.P99, 99)):
                above = percentile(times, percent) - least
                bench.record(ABOVE, contender.name, measure, above)
    for ours in (OURS, FoldlogRepeatable.name):
        for measure, which in ((Measure.P50, "median"), (Measure.P99, "99th percentile")):
            of = Ref(ABOVE, ours, measure)
            against = of._replace(contender=DbosAgent.name)
            bench.expect(f"{ours}: {ABOVE}, {which}, over DBOS", of, against, at_most=1.0)


async def _times(contender: RunsAgents, runs: int) -> list[float]:
    """Seconds a call of each run."""
    ids = [f"agent-{next(_numbers)}" for _ in range(runs)]
    return [each / CALLS for each in (await one_by_one(contender.do, ids)).calls]
