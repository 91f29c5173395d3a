"""A worker: another pod goes on with what one did that was killed. Replace `count_up` by yours."""

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


@foldlog.durable
async def count_up(run: foldlog.Run, upto: int) -> int:
    """A function of your own: it goes on at the first step that has no recorded end."""
    number = 0
    while number < upto:
        # Safe to repeat: a step that has an effect outside is confirmed or retracted instead.
        number = await run.step(f"count-{number}", count, number, repeatable=True)
    return number


async def main() -> None:
    """Work until Kubernetes ends the pod: its runs are then handed on to other pods."""
    async with foldlog.connect() as store:
        worker = foldlog.Worker(store, [count_up])
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):  # foldlog's image asks for the first
            loop.add_signal_handler(number, worker.stop)
        await store.start(count_up, 1000, id=RUN)  # the same run, however often it is started
        beating = asyncio.create_task(beat())
        try:
            await worker.run()
        finally:
            beating.cancel()


if __name__ == "__main__":
    asyncio.run(main())
