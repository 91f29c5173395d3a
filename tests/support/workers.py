"""Scripts in processes of their own, which say one JSON value per line."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.forked import Forked

PATIENCE = 60
"""Seconds until a worker that says nothing is called hung."""


class Worker:
    """A script that runs."""

    def __init__(self, process: Forked) -> None:
        self.process = process

    async def hear(self) -> Any:
        """The next value it says. Raises EOFError once it has nothing more to say."""
        async with asyncio.timeout(PATIENCE):
            line = await self.process.stdout.readline()
        # The last line of a killed worker may be cut short: then it was never said.
        if not line.endswith(b"\n"):
            raise EOFError(await self.complaint())
        return json.loads(line)

    async def hear_rest(self) -> list[Any]:
        """Everything it still says until it ends."""
        heard = []
        try:
            while True:
                heard.append(await self.hear())
        except EOFError:
            return heard

    def tell(self, line: object = "") -> None:
        """Give it a line that it waits for."""
        self.process.stdin.write(f"{line}\n".encode())

    async def kill(self) -> None:
        """SIGKILL, and see it gone; what it had said can still be heard."""
        if self.process.returncode is None:
            self.process.kill()
        async with asyncio.timeout(PATIENCE):
            await self.process.wait()

    async def finish(self) -> None:
        """End its input and wait for a clean exit."""
        self.process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            code = await self.process.wait()
        assert code == 0, await self.complaint()

    async def complaint(self) -> str:
        """What it wrote to its standard error."""
        return (await self.process.stderr.read()).decode()


StartWorker = Callable[..., Awaitable[Worker]]


@asynccontextmanager
async def starting(script: Path, *given: object) -> AsyncIterator[StartWorker]:
    """What starts `script` with the arguments `given`, and those of each call behind them.

    No worker outlives the context.
    """
    workers: list[Worker] = []

    async def start(*arguments: object) -> Worker:
        argv = map(str, (*given, *arguments))
        workers.append(Worker(await Forked.start(script, *argv, env=environment())))
        return workers[-1]

    try:
        yield start
    finally:
        for worker in workers:
            if worker.process.returncode is None:
                worker.process.kill()
            await worker.process.communicate()


def environment(**variables: str) -> dict[str, str]:
    """This process's environment, which names no server of the developer's."""
    return {k: v for k, v in os.environ.items() if k != "FOLDLOG_URL"} | variables
