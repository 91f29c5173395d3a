"""A second process on a data directory. Run as a script; speaks one JSON value per line.

worker.py PATH save SESSION PREFIX COUNT   saves updates; prints each id once it is acked
worker.py PATH flood SESSION PREFIX        the same without end
worker.py PATH obey SESSION PREFIX         the same, one update for each line that it hears
worker.py PATH list SESSION                prints the ids of the session's updates
worker.py PATH resume CALLS TOKEN...       prints "ready", waits for a line, then makes CALLS
                                           concurrent resumes of each token; prints the wins
worker.py PATH serve                       prints "ready", then keeps its store open until
                                           its input ends
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# Run as a script, so that a worker costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import foldlog
from tests.support.build import update


def say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def hear() -> str:
    return await asyncio.to_thread(sys.stdin.readline)


async def save(store: foldlog.Store, session: str, ids: Iterable[str]) -> None:
    for id_ in ids:
        await store.save_update(update(id_, session))
        say(id_)


async def obey(store: foldlog.Store, session: str, prefix: str) -> None:
    say("ready")
    for number in itertools.count():
        if not await hear():
            return
        await save(store, session, [f"{prefix}{number}"])


async def resume(store: foldlog.Store, calls: int, tokens: list[str]) -> None:
    say("ready")
    await hear()
    wins = {}
    for token in tokens:
        loads = (store.load_planner_state(token) for _ in range(calls))
        wins[token] = sum(payload is not None for payload in await asyncio.gather(*loads))
    say(wins)


async def main(path: str, command: str, *arguments: str) -> None:
    async with foldlog.connect(path=path) as store:
        match command, *arguments:
            case "save", session, prefix, count:
                await save(store, session, (f"{prefix}{n}" for n in range(int(count))))
            case "flood", session, prefix:
                await save(store, session, (f"{prefix}{n}" for n in itertools.count()))
            case "obey", session, prefix:
                await obey(store, session, prefix)
            case "list", session:
                say([u.update_id for u in await store.list_updates(session, limit=1_000_000)])
            case "resume", calls, *tokens:
                await resume(store, int(calls), tokens)
            case ("serve",):
                say("ready")
                while await hear():
                    pass
            case _:
                raise SystemExit(__doc__)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
