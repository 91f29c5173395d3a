"""What waits for a time in a backup is woken where that is restored: timers are no records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from foldlog import Worker, durable
from foldlog.exporting import export, restore
from foldlog.runs import Run
from tests.exporting.test_round_trip import Open, fresh
from tests.workers.working import PATIENCE, reached

__all__ = ["fresh"]


@durable
async def sleeping(run: Run, seconds: float) -> str:
    await run.sleep(seconds)
    return "slept"


@durable
async def asking(run: Run) -> Any:
    return await run.ask("go", "Go on?", timeout=1.0, default="nobody answered")


async def test_runs_that_sleep_ask_or_begin_later_and_schedules_go_on(
    fresh: Open, tmp_path: Path
) -> None:
    store, copy = await fresh(), await fresh()
    async with Worker(store, [sleeping, asking]):
        runs = [
            await store.start(sleeping, 2.5, id="sleeps"),
            await store.start(asking, id="asks"),
        ]
        for run in runs:
            await reached(store, run, "PAUSED")
    runs.append(await store.start(sleeping, 0.0, id="later", delay=1.0))
    await store.queues.schedule("each", "* * * * * *", sleeping, 0.0, session_id="scheduled")
    await export(store, tmp_path / "all")
    await store.close()
    await restore(copy, tmp_path / "all")
    async with Worker(copy, [sleeping, asking]):
        for id, result in ("sleeps", "slept"), ("asks", "nobody answered"), ("later", "slept"):
            assert await copy.queues.handle(id).result(timeout=PATIENCE) == result
        async for task in copy.watch_updates("scheduled"):
            assert task.session_id == "scheduled"
            break
