"""Projectors in a process of their own: projects.py URL NAMESPACE DATABASE COMMIT.

It says ["ready"]. In its COMMITth commit it kills itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import foldlog
from foldlog.projectors import projecting
from foldlog.projectors.database import Database
from tests.projectors.filling import ALL


def die_in(commit: int) -> None:
    """Have this process killed in a commit, while the database works and Python does not."""
    now, execute, done = threading.Event(), Database.execute, 0

    def die() -> None:
        now.wait()
        os.kill(os.getpid(), signal.SIGKILL)

    def counting(self: Database, sql: str, parameters: Sequence[Any] = ()) -> Any:
        nonlocal done
        done += sql == "commit"
        if done == commit:
            now.set()
        return execute(self, sql, parameters)

    threading.Thread(target=die, daemon=True).start()
    Database.execute = counting  # type: ignore[method-assign]


async def main(path: str, namespace: str, to: str, commit: str) -> None:
    projecting._SILENCE = 0.5
    die_in(int(commit))
    async with foldlog.connect(path=path, namespace=namespace) as store:
        running = foldlog.Projecting(store, ALL, to=to)
        os.write(1, (json.dumps(["ready"]) + "\n").encode())
        await running.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
