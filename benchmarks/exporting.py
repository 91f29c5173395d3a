"""How fast a log is read, exported, backed up and restored.

    python -m benchmarks.exporting [--updates 100000]

Every update is a record of its own, of 2,000 sessions, on an embedded server.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Final

import foldlog
from foldlog.exporting import check, export, export_parquet, restore

SESSIONS: Final = 2_000


def update(number: int) -> foldlog.StateUpdate:
    """One update of some 400 bytes."""
    return foldlog.StateUpdate(
        session_id=f"session-{number % SESSIONS}",
        update_id=f"update-{number}",
        task_id="task",
        update_type=foldlog.UpdateType.PROGRESS,
        content={"n": number, "text": f"step {number} of an agent that says what it does " * 4},
        created_at=dt.datetime.now(dt.UTC),
    )


async def timed(what: str, records: int, work: Awaitable[object]) -> None:
    """Print how long it takes."""
    began = time.perf_counter()
    await work
    seconds = time.perf_counter() - began
    print(f"{what:<24}{seconds:8.2f} s{records / seconds:12,.0f} records/s")


async def read(store: foldlog.Store) -> None:
    """Read every record."""
    async for _ in store.records():
        pass


async def main(updates: int) -> None:
    """Fill a log, and time what is done with it."""
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        lines, zipped = directory / "all.jsonl", directory / "all.jsonl.gz"
        async with foldlog.connect(path=directory / "log") as store:
            for start in range(0, updates, SESSIONS):
                numbers = range(start, min(start + SESSIONS, updates))
                await asyncio.gather(*(store.save_update(update(n)) for n in numbers))
            await timed("store.records()", updates, read(store))
            await timed("export", updates, export(store, lines))
            await timed("export, compressed", updates, export(store, zipped))
            await timed("check", updates, asyncio.to_thread(check, zipped))
            parquet = export_parquet(store, directory / "all.parquet")
            await timed("export, Parquet", updates, parquet)
        async with foldlog.connect(path=directory / "copy") as copy:
            await timed("restore", updates, restore(copy, zipped))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=100_000)
    asyncio.run(main(parser.parse_args().updates))
