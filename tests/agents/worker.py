"""An agent in another process. Run as a script; says one JSON value per line.

worker.py PATH NAMESPACE count SCOPE TIMES      adds one, so often; says "read" when it has read for
                                                the first time, and goes on when it hears a line;
                                                says how many conflicts it met
worker.py PATH NAMESPACE redeem TOKEN           for every line: says what the token opens, strongly
worker.py PATH NAMESPACE follow TOKEN           the same from its cache: says each new value it sees
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

# Run as a script, so that a worker costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pydantic import BaseModel

import foldlog
from foldlog.agents import ShareRefused, ShareToken, TurnStateContext


class Count(BaseModel):
    n: int = 0


def say(*value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def heard() -> bool:
    return bool(await asyncio.to_thread(sys.stdin.readline))


async def count(store: foldlog.Store, scope: str, times: str) -> None:
    tried = 0

    async def add(ctx: TurnStateContext) -> None:
        nonlocal tried
        tried += 1
        state = await ctx.get("count", Count)
        if tried == 1:
            say("read")
            await heard()
        ctx.update("count", Count(n=state.n + 1))

    for _ in range(int(times)):
        await store.agents.run_turn(scope, add)
    say("conflicts", tried - int(times))


async def redeem(store: foldlog.Store, token: str) -> None:
    say("ready")
    while await heard():
        try:
            entry = await store.agents.get_agent_state(
                "clerk/1", ShareToken(token), Count, consistency="strong"
            )
        except ShareRefused:
            say("refused")
        else:
            say("read", None if entry is None else entry.state.n)


async def follow(store: foldlog.Store, token: str) -> None:
    last = None
    while last != -1:
        async with store.agents.turn("clerk/1") as ctx:
            state = await ctx.get(ShareToken(token), Count)
        if state.n != last:
            last = state.n
            say("saw", last)
        await asyncio.sleep(0.001)  # the event loop has to take pushes in


async def main(path: str, namespace: str, command: str, *arguments: str) -> None:
    commands = {"count": count, "redeem": redeem, "follow": follow}
    async with foldlog.connect(path=path, namespace=namespace) as store:
        await commands[command](store, *arguments)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
