"""OpenAI Agents in another process. Run as a script; says one JSON value per line.

worker.py PATH NAMESPACE SESSION WHAT

WHAT is what it does:

    begin      speaks twice, pauses at a refund, and adds items, three at a time, until it is killed
    resume     waits for a line, goes on with the run that waits, if it gets it, and says the end
    add        waits for a line and adds ten items, one at a time
    pop        waits for a line and pops until nothing is left
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from pathlib import Path
from typing import Any

# Run as a script, so that a worker costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import foldlog
from agents import Runner
from foldlog.integrations.openai_agents import FoldlogSession
from tests.integrations.openai_agents.desk import make_desk


def say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def begin(session: FoldlogSession) -> None:
    for spoken in ("hello", "hello again"):
        say((await Runner.run(make_desk(), spoken, session=session)).final_output)
    result = await Runner.run(make_desk(), "refund 7", session=session)
    say(await session.pause(result.to_state(), user_id="ann"))
    for number in itertools.count():
        await session.add_items(
            [{"role": "user", "content": f"{number} {part}"} for part in range(3)]
        )
        say(number)


async def resume(session: FoldlogSession) -> None:
    await told()
    state = await session.resume(make_desk())
    if state is None:
        say(None)
        return
    for each in state.get_interruptions():
        state.approve(each)
    say((await Runner.run(make_desk(), state, session=session)).final_output)


async def add(session: FoldlogSession) -> None:
    await told()
    for number in range(10):
        await session.add_items([{"role": "user", "content": number}])
    say("added")


async def pop(session: FoldlogSession) -> None:
    await told()
    while (item := await session.pop_item()) is not None:
        say(item["content"])


async def told() -> None:
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)


async def main(path: str, namespace: str, session_id: str, what: str) -> None:
    does = {"begin": begin, "resume": resume, "add": add, "pop": pop}[what]
    async with foldlog.connect(path=path, namespace=namespace) as store:
        await does(FoldlogSession(session_id, store))


asyncio.run(main(*sys.argv[1:]))
