"""A process that does a run of six steps with a question. Speaks one JSON value per line.

worker.py PATH NAMESPACE SESSION EFFECTS

Each step appends its name to the file EFFECTS when it really happens. Says ["opened"], ["before",
STEP] and ["in", STEP] before and after that, and at last how the run ended: ["done", ANSWER] or
[ERROR, STEP].
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

STEPS = 6
ASKS_AFTER = 3


def say(*value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def did(effects: Path, step: str) -> None:
    """Have an effect that outlives this process."""
    say("before", step)
    with effects.open("a") as file:
        file.write(step + "\n")
        file.flush()
        os.fsync(file.fileno())
    say("in", step)


async def main(path: str, namespace: str, session: str, effects: Path) -> None:
    async with foldlog.connect(path=path, namespace=namespace) as store:
        answer = None
        try:
            async with store.run("job", session_id=session, wait=60, lease=0.5) as run:
                say("opened")
                for n in range(1, STEPS + 1):
                    await run.step(f"s{n}", did, effects, f"s{n}")
                    if n == ASKS_AFTER:
                        answer = await run.ask("go", "Go on?")
        except foldlog.FoldlogError as error:
            say(type(error).__name__, getattr(error, "step", None))
        else:
            say("done", answer)


if __name__ == "__main__":
    _, path, namespace, session, file = sys.argv
    asyncio.run(main(path, namespace, session, Path(file)))
