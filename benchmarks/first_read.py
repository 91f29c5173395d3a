"""A process that has just started and reads sessions for the first time. Started by `Reader`.

python -m benchmarks.first_read CONTENDER WHERE

It prints a line when it is connected, and for each session that a line names, how many updates it
has, and when reading them began and ended by the machine's monotonic clock.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from typing import Final, NamedTuple, Protocol, Self

from benchmarks.contenders.archived import Archived
from benchmarks.contenders.contender import Lists
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.contenders.postgres import Postgres
from benchmarks.site import Site


class Attaches(Lists, Protocol):
    """A contender whose data another process can read, too."""

    @property
    def where(self) -> str: ...

    async def attach(self, where: str) -> None: ...


KINDS: Final[dict[str, type[Attaches]]] = {
    Foldlog.name: Foldlog,
    Archived.name: Archived,
    Postgres.name: Postgres,
}


class Read(NamedTuple):
    """How many updates a session has, and when they were read."""

    updates: int
    began: float
    ended: float


class Reader:
    """The process, seen from the one that starts it: a context."""

    def __init__(self, contender: Attaches) -> None:
        self._contender = contender
        self._process: Process

    async def __aenter__(self) -> Self:
        about = self._contender.name, self._contender.where
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.first_read", *about, stdin=PIPE, stdout=PIPE
        )
        await self._line()
        return self

    async def read(self, session: str) -> Read:
        """Have it read a session."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{session}\n".encode())
        return Read(*json.loads(await self._line()))

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        if line := await self._process.stdout.readline():
            return line
        raise RuntimeError("the process that reads has ended")

    async def __aexit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


async def main(name: str, where: str) -> None:
    """Connect, and read what it is told to."""
    async with Site() as site:
        contender = KINDS[name](site)
        await contender.attach(where)
        print("connected", flush=True)
        while session := (await asyncio.to_thread(sys.stdin.readline)).strip():
            began = time.monotonic()
            found = len(await contender.list_updates(session))
            print(json.dumps([found, began, time.monotonic()]), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
