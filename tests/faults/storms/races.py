"""A pause that several processes resume at once."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from pathlib import Path

import foldlog
from tests.faults.checker import Violation
from tests.faults.storms.figures import Figures

_WORKER = Path(__file__).parents[2] / "processes" / "worker.py"
_PROCESSES = 4
_CALLS = 3


async def resume_races(directory: Path, races: int) -> Figures:
    """Have four processes resume each token three times, all at once; count who wins."""
    figures = Figures("resume races across processes")
    tokens = [f"token-{number}" for number in range(races)]
    async with foldlog.connect(path=directory) as store:
        await asyncio.gather(
            *(store.save_planner_state(token, {"token": token}) for token in tokens)
        )
        workers = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, str(_WORKER), str(directory), "resume", str(_CALLS), *tokens),
                stdin=PIPE,
                stdout=PIPE,
                limit=1024 * 1024 * 16,
            )
            for _ in range(_PROCESSES)
        ]
        for worker in workers:
            assert worker.stdout is not None
            await worker.stdout.readline()  # ready
        wins: Counter[str] = Counter()
        winners = Counter[int]()
        for said in await asyncio.gather(*(worker.communicate(b"\n") for worker in workers)):
            of_one = json.loads(said[0])
            wins.update(of_one)
            winners[sum(of_one.values())] += 1
    figures.counts["races"] = races
    figures.counts["resumes tried"] = races * _PROCESSES * _CALLS
    figures.counts["winners"] = wins.total()
    figures.counts["processes that won some"] = sum(c for won, c in winners.items() if won)
    for token in tokens:
        if wins[token] != 1:
            figures.broken.append(Violation("resumed", f"{token} has {wins[token]} winners"))
    return figures
