"""What durability costs each call of an agent."""

from __future__ import annotations

from collections.abc import Sequence
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
from benchmarks.contenders.durable_openai import (
    BareOpenai,
    DbosOpenai,
    FoldlogOpenai,
    FoldlogOpenaiRepeatable,
)
from benchmarks.measuring import Measure, Ref, percentile
from benchmarks.scenarios.timing import one_by_one

PYDANTIC: Final = (BareAgent, FoldlogAgent, FoldlogRepeatable, DbosAgent)
OPENAI: Final = (BareOpenai, FoldlogOpenai, FoldlogOpenaiRepeatable, DbosOpenai)

BARE: Final = "a call"
ABOVE: Final = "a call, above the bare agent's"

_numbers: Final = count()


async def run(bench: Bench) -> None:
    """Compare the time of runs, one after another, with that of the bare agent: Pydantic AI."""
    await _compare(bench, "durable", "Pydantic AI", PYDANTIC)


async def run_openai(bench: Bench) -> None:
    """The same in OpenAI Agents."""
    await _compare(bench, "durable-openai", "OpenAI Agents", OPENAI)


async def _compare(
    bench: Bench, name: str, framework: str, kinds: Sequence[type[RunsAgents]]
) -> None:
    """Compare contenders, of which the bare agent comes first, and DBOS last."""
    bare_kind, *ours, dbos = kinds
    runs = bench.size(200, 30)
    bench.begin(
        name,
        f"{framework}: an agent's calls, each on record",
        f"One agent: {CALLS} calls of a scripted model and of a tool, which answer at once; the "
        "last two tools are called side by side. Bare, in a run of foldlog, and in a workflow "
        "of DBOS, where its tools are steps. Each is begun and done in one process, one run after "
        "another. Time: what a run takes longer than the median of the bare agent just before, "
        f"divided by {CALLS}; beginning and ending the run are in it. A step of DBOS is done again "
        "if its process dies in it, as foldlog's model calls and repeatable tools are; foldlog's "
        "other tools are on record before they begin, too.",
        ours=ours[0].name,
    )
    async with bench.opened([bare_kind]) as bare, bench.opened([*ours, dbos]) as opened:
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
            bench.record(BARE, bare_kind.name, Measure.P50, least)
            for measure, percent in ((Measure.P50, 50), (Measure.P99, 99)):
                above = percentile(times, percent) - least
                bench.record(ABOVE, contender.name, measure, above)
    for each in ours:
        for measure, which in ((Measure.P50, "median"), (Measure.P99, "99th percentile")):
            of = Ref(ABOVE, each.name, measure)
            what = f"{each.name}: {ABOVE}, {which}, over {dbos.name}"
            bench.expect(what, of, of._replace(contender=dbos.name), at_most=1.0)


async def _times(contender: RunsAgents, runs: int) -> list[float]:
    """Seconds a call of each run."""
    ids = [f"agent-{next(_numbers)}" for _ in range(runs)]
    return [each / CALLS for each in (await one_by_one(contender.do, ids)).calls]
