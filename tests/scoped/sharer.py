"""A process that writes to a scope and searches it without end, in the index that others share."""

from __future__ import annotations

import asyncio
import itertools
import sys

import foldlog
from foldlog.scoped import Scope

ONE = Scope.session("s1")
KEYS = 40


async def main(path: str, name: str) -> None:
    async with foldlog.connect(path=path) as store:
        for number in itertools.count():
            text = f"word {name}x{number}"
            await store.scoped.write(ONE, f"{name}:{number % KEYS}", text)
            if number % 5 == 4:
                await store.scoped.delete(ONE, f"{name}:{(number - 3) % KEYS}")
            [found] = await store.scoped.search(ONE, f"{name}x{number}", 5)
            assert found.snippet == text, found
            assert f"{name}:{number % KEYS}" in await store.scoped.list(ONE, f"{name}:")
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
