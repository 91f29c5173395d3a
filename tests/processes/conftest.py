"""Starts workers, and sees to it that none survives its test."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

WORKER = Path(__file__).with_name("worker.py")
PATIENCE = 60  # seconds until a worker that says nothing is called hung


class Worker:
    """A running `worker.py`."""

    def __init__(self, process: Process) -> None:
        self.process = process

    async def hear(self) -> Any:
        """The next value it says. Raises EOFError once it has nothing more to say."""
        assert self.process.stdout is not None
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

    def tell(self) -> None:
        """Give it the line it waits for."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")

    def kill(self) -> None:
        """SIGKILL: nothing in the worker runs after this."""
        self.process.kill()

    async def finish(self) -> None:
        """End its input and wait for a clean exit."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            code = await self.process.wait()
        assert code == 0, await self.complaint()

    async def complaint(self) -> str:
        """What it wrote to its standard error."""
        assert self.process.stderr is not None
        return (await self.process.stderr.read()).decode()


StartWorker = Callable[..., Awaitable[Worker]]


@pytest.fixture
async def start_worker(tmp_path: Path) -> AsyncIterator[StartWorker]:
    """Starts a worker on the test's data directory, `tmp_path / "data"`."""
    workers: list[Worker] = []

    async def start(*arguments: object) -> Worker:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(WORKER),
            str(tmp_path / "data"),
            *map(str, arguments),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )
        workers.append(Worker(process))
        return workers[-1]

    yield start
    for worker in workers:
        if worker.process.returncode is None:
            worker.kill()
        await worker.process.communicate()
