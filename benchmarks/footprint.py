"""The memory of a process that saves on one session after another. Started by the memory scenario.

python -m benchmarks.footprint CONTENDER SESSIONS SAVES_EACH POINTS

Prints a line of JSON at each of the points: how many sessions were written, and the resident bytes
by process; or, where the contender is not to be had, what is missing.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from importlib import import_module

from benchmarks import workload
from benchmarks.contenders.contender import Saves
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.contenders.penguiflow import InMemory
from benchmarks.contenders.workers import Dbos, FoldlogWorkers
from benchmarks.site import Site
from benchmarks.unavailable import Unavailable

_KINDS: tuple[type[Saves], ...] = (Foldlog, InMemory, FoldlogWorkers, Dbos)
KINDS = {kind.name: kind for kind in _KINDS}
_WRITERS = 500


async def main(name: str, sessions: int, each: int, points: int) -> None:
    """Save, and print."""
    async with Site() as site:
        contender = KINDS[name](site)
        try:
            process = import_module("psutil").Process
            await contender.open()
        except ImportError:
            print(json.dumps({"missing": "psutil is not installed"}))
            return
        except Unavailable as reason:
            print(json.dumps({"missing": str(reason)}))
            return
        part = sessions // points
        for point in range(points):
            await _written(contender, point * part, part, each)
            gc.collect()
            resident = {name: process().memory_info().rss}
            if isinstance(contender, Foldlog):
                embedded = (await contender.store.health()).embedded
                if embedded is not None and embedded.pid is not None:
                    server = process(embedded.pid).memory_info().rss
                    resident[f"{name} with its server"] = resident[name] + server
            print(json.dumps({"sessions": (point + 1) * part, "bytes": resident}), flush=True)
        await contender.close()


async def _written(contender: Saves, first: int, count: int, each: int) -> None:
    """Write `count` sessions, some hundred at a time, each by a writer of its own."""
    sessions = iter(range(first, first + count))

    async def writer() -> None:
        for session in sessions:
            for _ in range(each):
                await contender.save(workload.update(session))

    async with asyncio.TaskGroup() as group:
        for _ in range(_WRITERS):
            group.create_task(writer())


if __name__ == "__main__":
    contender, *numbers = sys.argv[1:]
    asyncio.run(main(contender, *map(int, numbers)))
