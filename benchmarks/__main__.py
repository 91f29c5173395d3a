"""Run the scenarios, print what they found, and write it down.

    python -m benchmarks [--quick] [--only saves bulk ...] [--rounds 5] [--output DIRECTORY]
    python -m benchmarks --again docs/explanation/benchmarks    # its page, from its results.json

Stopped by SIGTERM or Ctrl-C, it writes down the scenarios that it has finished.

$FOLDLOG_BENCH_POSTGRES (a DSN) and $FOLDLOG_BENCH_REDIS (a URL) name servers to use; without them
the run starts its own where the programs are installed. What is missing is named in the results.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
from pathlib import Path
from typing import Final

from benchmarks.bench import Bench
from benchmarks.machine import machine, versions
from benchmarks.plots import draw
from benchmarks.report import Report
from benchmarks.results import dumped, loaded
from benchmarks.scenarios import SCENARIOS
from benchmarks.site import Site
from benchmarks.unavailable import Unavailable

_ROOT: Final = Path(__file__).parents[1]
_PUBLISHED: Final = _ROOT / "docs/explanation/benchmarks"
_TRIED: Final = _ROOT / "build" / "benchmarks"
_EMPTY_PAGE: Final = "<!-- results -->\n<!-- end of results -->\n"
_RESULTS: Final = re.compile(r"(?<=<!-- results -->\n).*(?=<!-- end of results -->)", re.DOTALL)


async def run(names: list[str], *, quick: bool, rounds: int) -> Report:
    """Run the named scenarios on a site of their own."""
    task = asyncio.current_task()
    assert task is not None
    # As Ctrl-C does it: the servers that were started end with the run.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with Site() as site:
        bench = Bench(site, rounds=rounds, quick=quick)
        where = machine(site.directory("probe"))
        for name, value in {**where, **versions()}.items():
            bench.say(f"{name}: {value}")
        report = Report(bench, where, versions())
        for name in names:
            done = len(bench.records)
            try:
                await SCENARIOS[name](bench)
            except asyncio.CancelledError:
                # Whoever stops a run still wants what it has found: the scenarios that are whole.
                task.uncancel()
                del bench.records[done:]
                bench.missing[f"{name}, and what comes after it"] = "the run was stopped"
                break
            keep(report, _TRIED)
        bench.say("done")
    return report


def keep(report: Report, directory: Path) -> None:
    """Write results.json."""
    directory.mkdir(parents=True, exist_ok=True)
    results = json.dumps(dumped(report), indent=1, ensure_ascii=False)
    (directory / "results.json").write_text(results + "\n", "utf-8")


def write(report: Report, directory: Path) -> None:
    """Write results.json and the pictures, and put the tables into the directory's README.md."""
    keep(report, directory)
    try:
        pictures = draw(report.bench.records, directory)
    except Unavailable as reason:
        print(f"No pictures: {reason}")
        pictures = []
    page = directory / "README.md"
    text = page.read_text("utf-8") if page.exists() else _EMPTY_PAGE
    shown = "".join(f"![{path.stem}]({path.name})\n" for path in pictures)
    page.write_text(_RESULTS.sub(lambda _: f"\n{shown}\n{report.markdown()}\n", text), "utf-8")


def main() -> None:
    """Parse the arguments, run and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="all of it, small")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="SCENARIO", default=[])
    parser.add_argument("--rounds", type=int, help="5, or 2 with --quick")
    parser.add_argument(
        "--output", type=Path, help="default: docs/explanation/benchmarks, for a full run"
    )
    parser.add_argument(
        "--again", type=Path, metavar="DIRECTORY", help="make the page of earlier results again"
    )
    given = parser.parse_args()
    if given.again:
        write(loaded(json.loads((given.again / "results.json").read_text("utf-8"))), given.again)
        return
    rounds = given.rounds or (2 if given.quick else 5)
    in_full = not given.quick and not given.only and rounds >= 5
    report = asyncio.run(run(given.only or list(SCENARIOS), quick=given.quick, rounds=rounds))
    print(f"\n{report.markdown()}")
    output = given.output or (_PUBLISHED if in_full else _TRIED)
    write(report, output)
    print(f"Written to {output}")


if __name__ == "__main__":
    main()
