"""Durable saves of many writers, beside single publishes on the same disk, fsync on.

    python -m benchmarks.writers [--writers 256] [--rounds 5]

One case of the whole comparison, and no peers: it needs nothing that foldlog does not.
"""

from __future__ import annotations

import argparse
import asyncio

from benchmarks.bench import Bench
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.contenders.jetstream import Batches, Publish
from benchmarks.machine import machine, versions
from benchmarks.report import Report
from benchmarks.scenarios import saves
from benchmarks.site import Site


async def run(writers: int, rounds: int) -> Report:
    """Measure so many writers."""
    async with Site() as site:
        bench = Bench(site, rounds=rounds)
        bench.begin("saves", "Durable saves", f"Updates on {saves.SESSIONS} sessions.")
        await saves.measure(bench, [writers], (Foldlog, Publish, Batches))
        return Report(bench, machine(site.directory("probe")), versions())


def main() -> None:
    """Parse the arguments, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writers", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(asyncio.run(run(given.writers, given.rounds)).markdown())


if __name__ == "__main__":
    main()
