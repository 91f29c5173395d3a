"""Memory over very many saves on very many sessions, each in a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

from benchmarks.bench import Bench
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.contenders.penguiflow import InMemory
from benchmarks.measuring import Measure, Ref

KINDS = {Foldlog.name: Foldlog, InMemory.name: InMemory}
POINTS = 10
"""How often memory is looked at; the first time counts as the start."""

GROWING = 2
"""So many tenths of the sessions are written to a store that keeps them all in memory."""


async def run(bench: Bench) -> None:
    """Record the resident memory after each tenth of the sessions."""
    sessions, each = bench.size((100_000, 10), (1_000, 3))
    bench.begin(
        "memory",
        "Memory while sessions come and go",
        f"{sessions * each:,} saves on {sessions:,} sessions, each session written once: the "
        "resident memory of the process, and the sum with the embedded server's.",
    )
    for name in bench.turns(list(KINDS)):
        # What grows with every save shows that in the first tenths.
        points = POINTS if name == Foldlog.name else GROWING
        share = sessions * points // POINTS
        async for point in footprints(name, share, each, points):
            if "missing" in point:
                bench.missing[f"{name}, its memory"] = point["missing"]
                break
            case = _case(int(point["sessions"]))
            for contender, value in point["bytes"].items():
                bench.record(case, contender, Measure.BYTES, value)
    first, last = sessions // POINTS, sessions
    bench.expect(
        f"memory after {sessions * each:,} saves on {sessions:,} sessions, over that after a tenth",
        Ref(_case(last), Foldlog.name, Measure.BYTES),
        Ref(_case(first), Foldlog.name, Measure.BYTES),
        at_most=1.05,
    )


def _case(sessions: int) -> str:
    return f"{sessions:,} sessions"


async def footprints(
    name: str, sessions: int, each: int, points: int
) -> AsyncIterator[dict[str, Any]]:
    """What `benchmarks.footprint` prints, line by line."""
    arguments = [name, str(sessions), str(each), str(points)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.footprint", *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            yield json.loads(line)
    finally:
        await process.wait()
