"""Run the storms: `python -m tests.faults.storms [--seed N] [NAME[=SIZE] ...]`.

Each prints what it did and what it broke; the exit code is 1 if any promise was broken. While one
runs, each of its rounds tells what has been found so far (stderr).
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.storms.archive import archiver_kills, archiver_steps
from tests.faults.storms.clearings import clearings
from tests.faults.storms.cluster import lagging_kills, node_kills
from tests.faults.storms.figures import Figures
from tests.faults.storms.frozen import frozen
from tests.faults.storms.memory import memory_kept
from tests.faults.storms.outage import outage
from tests.faults.storms.races import resume_races
from tests.faults.storms.saves import contended_saves
from tests.faults.storms.server import server_kills
from tests.runs.processes.storm import run_kills
from tests.workers.processes.storm import worker_kills, worker_kills_on_three


class Storm(NamedTuple):
    """`run` takes a directory that is not there yet, a size and a seed; `size` is the full one."""

    run: Callable[[Path, int, int], Coroutine[Any, Any, Figures]]
    size: int


STORMS = {
    "memory": Storm(lambda path, size, seed: memory_kept(path, size, size // 1000), 100_000),
    "saves": Storm(contended_saves, 100_000),
    "races": Storm(lambda path, size, seed: resume_races(path, size), 1000),
    "outage": Storm(outage, 180),
    "server": Storm(server_kills, 1000),
    "cluster": Storm(lambda path, size, seed: node_kills(size, seed), 200),
    "lagging": Storm(lambda path, size, seed: lagging_kills(size, seed), 20),
    "archive": Storm(archiver_kills, 200),
    "archive-steps": Storm(lambda path, size, seed: archiver_steps(path, size, seed=seed), 1),
    "clearings": Storm(clearings, 1000),
    "runs": Storm(run_kills, 1000),
    "workers": Storm(worker_kills, 2000),
    "workers-on-three": Storm(worker_kills_on_three, 2000),
    "frozen": Storm(lambda path, size, seed: frozen(size, seed), 10),
}


def main(arguments: list[str]) -> int:
    """Run the named storms, or all."""
    parser = argparse.ArgumentParser(prog="storms", description="Run storms at full size.")
    parser.add_argument("--seed", type=int, default=1)
    known = ", ".join(f"{name} ({storm.size})" for name, storm in STORMS.items())
    parser.add_argument("storms", nargs="*", type=_sized, metavar="NAME[=SIZE]", help=known)
    given = parser.parse_args(arguments)
    # A line for each save that is spooled, and for each connection that is lost, says nothing here.
    logging.getLogger().addHandler(logging.NullHandler())
    broken = False
    for name, size in given.storms or [(name, storm.size) for name, storm in STORMS.items()]:
        with tempfile.TemporaryDirectory(prefix="foldlog-storm-") as directory:
            began = time.monotonic()
            figures = asyncio.run(STORMS[name].run(Path(directory, "data"), size, given.seed))
        sys.stdout.write(f"{figures}\n  in {time.monotonic() - began:.0f} s\n")
        sys.stdout.flush()
        broken = broken or bool(figures.broken)
    return int(broken)


def _sized(argument: str) -> tuple[str, int]:
    name, _, size = argument.partition("=")
    if name not in STORMS:
        raise argparse.ArgumentTypeError(f"there is no storm {name}; there are {', '.join(STORMS)}")
    return name, int(size) if size else STORMS[name].size


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
