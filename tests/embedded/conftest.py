"""Data directories, members in other processes, and waiting for processes to end."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from foldlog.locks import locked
from foldlog.log.embedded import EmbeddedServer
from tests.support.forked import Forked
from tests.support.workers import Worker, starting

if not hasattr(os, "pidfd_open"):
    pytest.skip("the processes are watched with Linux's pidfd", allow_module_level=True)

MEMBER = Path(__file__).with_name("member.py")


class Member(Worker):
    """A member of the data directory in a process of its own."""

    def __init__(self, process: Forked, facts: dict[str, Any]) -> None:
        super().__init__(process)
        self.facts = facts

    async def leave(self) -> None:
        self.tell("leave")
        assert await self.hear() == "left"
        await self.finish()


StartMember = Callable[[], Awaitable[Member]]


def processes(directory: Path) -> set[int]:
    """The supervisors and servers of `directory` that run now."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    script = f"supervisor.py {directory} "
    return {pid for pid in pids if script in command_line(pid) or works_in(pid, directory)}


def works_in(pid: int, directory: Path) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd").removesuffix(" (deleted)") == str(directory)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def pid_of(server: EmbeddedServer) -> int:
    """The nats-server's pid; the test fails when there is none."""
    assert server.pid is not None
    return server.pid


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def ended(*pids: int) -> None:
    """Wait until every process has ended."""
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            await asyncio.to_thread(select.select, [fd], [], [])
        finally:
            os.close(fd)


async def stopped(directory: Path) -> None:
    """Wait until supervisor and server have ended, even if they have hardly begun to start."""
    async with locked(directory / "server.lock"):
        await ended(*processes(directory))


async def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal that ends the process, and wait until it has."""
    os.kill(pid, number)
    await ended(pid)


@pytest.fixture
async def directory(tmp_path: Path) -> AsyncIterator[Path]:
    """A data directory that is not there yet. After the test no process of it may be left."""
    path = tmp_path / "data"
    yield path
    left = {pid: command_line(pid) for pid in processes(path)}
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left


@pytest.fixture
async def server(directory: Path) -> AsyncIterator[EmbeddedServer]:
    """This process's membership; the server is up."""
    joined = await EmbeddedServer.join(directory, timeout=30)
    yield joined
    await joined.leave()


@pytest.fixture
async def start_member(directory: Path) -> AsyncIterator[StartMember]:
    """Starts members in other processes; they are killed after the test, the servers with them."""
    async with starting(MEMBER, directory) as start:

        async def start_joined() -> Member:
            worker = await start()
            return Member(worker.process, await worker.hear())

        yield start_joined
    await stopped(directory)
