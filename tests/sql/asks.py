"""A program that asks a store again and again: `python asks.py path namespace`."""

from __future__ import annotations

import asyncio
import sys

import foldlog
from tests.support.build import task, update


async def main(path: str, namespace: str) -> None:
    async with foldlog.connect(path=path, namespace=namespace) as store:
        await store.sql("select count(*) from updates")
        sys.stdout.write("asks\n")
        sys.stdout.flush()
        number = 0
        while True:
            number += 1
            session = f"s{number % 7}"
            await store.save_update(update(f"{namespace} {number}", session))
            await store.save_task(task(f"t{number % 11}", session))
            if number % 5 == 0:
                await store.clear_session(session)
            await store.sql("select count(*) from updates, tasks")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
