"""A writer on a thread, in another process. Run as a script; says one JSON value per line.

worker.py PATH NAME WHAT

WHAT is "steps": it holds the thread for a few steps, again and again, until its input ends; after
each it says ["step", NUMBER]. Or "late": it saves a checkpoint and waits for a line; then it goes
on from that checkpoint, and says what that raises.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

# Run as a script, so that a worker costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import foldlog
from foldlog.integrations.access import access_to
from foldlog.integrations.langgraph.fencing import CheckpointGone, Holding, ThreadHeld
from tests.threads.support import FORMS, ROOT, Place, checkpoint, step, threads

LEASE = 0.3
STEPS = 3


def say(*heard: Any) -> None:
    sys.stdout.write(json.dumps(heard) + "\n")
    sys.stdout.flush()


async def steps(store: foldlog.Store, name: str) -> None:
    one, ended = threads(store), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, ended.set)
    while not ended.is_set():
        try:
            async with Holding(access_to(store), "trip", name, LEASE, False):
                for _ in range(STEPS):
                    latest = await one.get(ROOT)
                    values = [] if latest is None else FORMS.value(latest.values["messages"])
                    place = Place("trip", "", latest and latest.checkpoint.id)
                    number = len(values) + 1
                    saved, versions = step(number, [*values, f"{name} {number}"])
                    put = await one.put(place, saved, {"by": name}, versions)
                    await one.put_writes(put, [(0, "messages", name)], name, "")
                    say("step", number)
        except ThreadHeld:
            await asyncio.sleep(LEASE / 10)


async def late(store: foldlog.Store) -> None:
    one = threads(store)
    first = await one.put(ROOT, checkpoint("1", text="x"), {}, {"text": 1})
    say("put")
    await asyncio.to_thread(sys.stdin.readline)
    for call in (
        one.put(first, checkpoint("2", text="y"), {}, {"text": 1}),
        one.put_writes(first, [(0, "text", "z")], "task", ""),
    ):
        try:
            await call
        except CheckpointGone as error:
            say("gone", error.thread_id)


async def main(path: str, name: str, what: str) -> None:
    async with foldlog.connect(path=path) as store:
        await (steps(store, name) if what == "steps" else late(store))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
