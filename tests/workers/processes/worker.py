"""A worker in a process of its own: worker.py URL NAMESPACE EFFECTS. Says ["ready"].

Each step appends the run's name and its own to the file EFFECTS/SESSION when it really happens.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

# Run as a script, so that a worker costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import foldlog
from foldlog.runs import Run

STEPS = ["s1", "s2", "s3", "s4", "s5", "s6"]
LEASE = 1.0
_EFFECTS = Path(sys.argv[3]) if __name__ == "__main__" else Path()


def did(session: str, run: str, step: str) -> str:
    """Have an effect that outlives this process."""
    with _EFFECTS.joinpath(session).open("a") as file:
        file.write(f"{run} {step}\n")
        file.flush()
        os.fsync(file.fileno())
    return step


async def done(run: Run, step: str) -> None:
    await run.step(step, did, run.session_id, run.name, step)


@foldlog.durable(attempts=1_000)
async def child(run: Run) -> str:
    await done(run, "c1")
    return run.name


@foldlog.durable(attempts=1_000)
async def job(run: Run, seconds: float) -> str:
    """Six steps with a sleep, a question and a child between them."""
    await done(run, "s1")
    await run.sleep(seconds)
    await done(run, "s2")
    answer = await run.ask("go", "Go on?")
    await done(run, "s3")
    [name] = await run.gather(await run.start(child, id="child"))
    for step in STEPS[3:]:
        await done(run, step)
    return f"{answer} {name}"


async def main(where: str, namespace: str) -> None:
    kept: dict[str, Any] = {"url": where} if "://" in where else {"path": where}
    async with foldlog.connect(**kept, namespace=namespace) as store:
        worker = foldlog.Worker(store, [job, child], slots=32, lease=LEASE)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        os.write(1, (json.dumps(["ready"]) + "\n").encode())
        await worker.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
