"""Run the storms at full size: `python -m tests.faults.storms [NAME...]`.

Each prints what it did and what it broke; the exit code is 1 if any promise was broken.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tests.faults.storms.cluster import node_kills
from tests.faults.storms.figures import Figures
from tests.faults.storms.memory import memory_kept
from tests.faults.storms.races import resume_races
from tests.faults.storms.saves import contended_saves
from tests.faults.storms.server import server_kills

STORMS: dict[str, Callable[[Path], Coroutine[Any, Any, Figures]]] = {
    "memory": lambda path: memory_kept(path, 100_000, 100),
    "saves": lambda path: contended_saves(path, 100_000),
    "races": lambda path: resume_races(path, 1000),
    "server": lambda path: server_kills(path, 1000),
    "cluster": lambda path: node_kills(200),
}


def main(names: list[str]) -> int:
    """Run the named storms, or all."""
    unknown = set(names) - set(STORMS)
    if unknown:
        sys.stdout.write(f"there is no storm {', '.join(unknown)}; there are {', '.join(STORMS)}\n")
        return 2
    broken = False
    for name in names or STORMS:
        with tempfile.TemporaryDirectory(prefix="foldlog-storm-") as directory:
            began = time.monotonic()
            figures = asyncio.run(STORMS[name](Path(directory, "data")))
        sys.stdout.write(f"{figures}\n  in {time.monotonic() - began:.0f} s\n")
        sys.stdout.flush()
        broken = broken or bool(figures.broken)
    return int(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
