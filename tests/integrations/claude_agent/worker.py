"""A session of the Claude Agent SDK in another process. Says one JSON value per line.

worker.py PATH NAMESPACE WHAT

WHAT is what it does:

    begin      speaks with a scripted Claude, says the session, and appends entries, three at a
               time, until it is killed
    resume     waits for the session, goes on with it, and says the end
    add        waits for a line, appends ten entries of its own and ten that all append
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

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    project_key_for_directory,
    query,
)

import foldlog
from foldlog.integrations.claude_agent import FoldlogSessionStore

SCRIPTED = Path(__file__).resolve().parents[3] / "examples" / "scripted_claude.py"
KEY = {"project_key": "acme", "session_id": "shared"}


def say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def told() -> str:
    return (await asyncio.to_thread(sys.stdin.readline)).strip()


async def ask(sessions: FoldlogSessionStore, prompt: str, **given: Any) -> ResultMessage:
    options = ClaudeAgentOptions(session_store=sessions, cli_path=SCRIPTED, **given)
    results = [m async for m in query(prompt=prompt, options=options)]
    [result] = [each for each in results if isinstance(each, ResultMessage)]
    return result


async def begin(sessions: FoldlogSessionStore) -> None:
    result = await ask(sessions, "To Oslo")
    key = {"project_key": project_key_for_directory(), "session_id": result.session_id}
    say(key)
    for number in itertools.count():
        parts = [
            {"type": "user", "uuid": f"{number} {part}", "message": {"role": "user"}}
            for part in range(3)
        ]
        await sessions.append(key, parts)
        say(number)


async def resume(sessions: FoldlogSessionStore) -> None:
    result = await ask(sessions, "By train", resume=await told())
    say(result.result)


async def add(sessions: FoldlogSessionStore) -> None:
    say("ready")
    mine = await told()
    for number in range(10):
        await sessions.append(
            KEY, [{"type": "x", "uuid": f"all {number}"}, {"type": "x", "uuid": f"{mine} {number}"}]
        )
    say("added")


async def main(path: str, namespace: str, what: str) -> None:
    does = {"begin": begin, "resume": resume, "add": add}[what]
    async with foldlog.connect(path=path, namespace=namespace) as store:
        await does(FoldlogSessionStore(store))


asyncio.run(main(*sys.argv[1:]))
