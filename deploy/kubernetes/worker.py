"""An agent that goes on where it was when its pod was killed: replace `count` by your steps."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import foldlog

RUN = os.environ.get("RUN", "count-to-1000")
ALIVE = Path(os.environ.get("FOLDLOG_PATH", "/data/foldlog")).with_name("alive")


async def beat() -> None:
    """Tell the liveness probe that the event loop runs."""
    while True:
        ALIVE.touch()
        await asyncio.sleep(10)


async def count(number: int) -> int:
    """A step: called once, however often the process dies before or after it."""
    print(number, flush=True)
    await asyncio.sleep(1)
    return number + 1


async def work() -> None:
    """Go on with the run at the first step that has no recorded end."""
    async with foldlog.connect() as store, store.run(RUN) as run:
        number = 0
        while number < 1000:
            # Safe to repeat: a step that has an effect outside is confirmed or retracted instead.
            number = await run.step(f"count-{number}", count, number, repeatable=True)
    await asyncio.Event().wait()  # all is done; Kubernetes would start it again


async def main() -> None:
    """Work until Kubernetes ends the pod."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):  # foldlog's image asks for the first
        loop.add_signal_handler(number, task.cancel)
    async with asyncio.TaskGroup() as group:
        group.create_task(beat())
        await work()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except asyncio.CancelledError:
        print("ended", flush=True)
