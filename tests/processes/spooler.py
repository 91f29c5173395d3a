"""A process with a degrading store. Run as a script; speaks one JSON value per line.

spooler.py URL SPOOL SESSION PREFIX    prints "ready"; then, for each number that it hears, saves so
                                       many updates, one after the other, and prints each id with
                                       how many wait in the spool
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import sys
from pathlib import Path
from typing import Any

# Run as a script, so that a worker costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import foldlog
from tests.support.build import update
from tests.support.degrading import spool_of


def say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def main(url: str, spool: str, session: str, prefix: str) -> None:
    logging.getLogger("foldlog").setLevel(logging.CRITICAL)
    async with foldlog.connect(url, spool=spool, on_error="degrade", timeout=0.3) as store:
        say("ready")
        ids = (f"{prefix}{n}" for n in itertools.count())
        while line := await asyncio.to_thread(sys.stdin.readline):
            for id_ in itertools.islice(ids, int(line)):
                await store.save_update(update(id_, session))
                say([id_, spool_of(store).waiting])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
