"""A process that does many runs at once, of six steps with a question each. Speaks JSON lines.

worker.py PATH NAMESPACE EFFECTS SESSION...

Each step appends its name to the file EFFECTS/SESSION when it really happens. Says [SESSION,
"opened"], [SESSION, "before", STEP] and [SESSION, "in", STEP] before and after that, [SESSION,
ERROR] where it lets go of a run and opens it again, and at last how each run ended: [SESSION,
"done", ANSWER] or [SESSION, "cancelled"].
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

# Run as a script, so that a worker costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import foldlog
from foldlog.runs import RunCancelled

STEPS = 6
ASKS_AFTER = 3
LEASE = 0.5
RUN = "job"


def say(*value: object) -> None:
    os.write(1, (json.dumps(value) + "\n").encode())  # one write, whole, from whichever thread


def did(effects: Path, session: str, step: str) -> None:
    """Have an effect that outlives this process."""
    say(session, "before", step)
    with effects.joinpath(session).open("a") as file:
        file.write(step + "\n")
        file.flush()
        os.fsync(file.fileno())
    say(session, "in", step)


async def work(store: foldlog.Store, effects: Path, session: str) -> None:
    """Do one run to its end, however often it has to be opened."""
    while True:
        try:
            async with store.run(RUN, session_id=session, wait=60, lease=LEASE) as run:
                say(session, "opened")
                answer = None
                for n in range(1, STEPS + 1):
                    await run.step(f"s{n}", did, effects, session, f"s{n}")
                    if n == ASKS_AFTER:
                        answer = await run.ask("go", "Go on?")
        except RunCancelled:
            return say(session, "cancelled")
        except foldlog.FoldlogError as error:
            say(session, type(error).__name__)
            await asyncio.sleep(0.05)  # until somebody has said whether the step has happened
        else:
            return say(session, "done", answer)


async def main(path: str, namespace: str, effects: Path, sessions: list[str]) -> None:
    async with (
        foldlog.connect(path=path, namespace=namespace) as store,
        asyncio.TaskGroup() as group,
    ):
        for session in sessions:
            group.create_task(work(store, effects, session))


if __name__ == "__main__":
    _, path, namespace, effects, *sessions = sys.argv
    asyncio.run(main(path, namespace, Path(effects), sessions))
