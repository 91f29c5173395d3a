"""Processes that project, and databases, are killed while records are saved, cleared and forked."""

from __future__ import annotations

import asyncio
import os
import random
import select
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from benchmarks.servers.postgres import make, serving, url_of
from benchmarks.unavailable import Unavailable

import foldlog
from foldlog import Projecting
from foldlog.projectors.database import Database
from tests.projectors.filling import ALL, PATIENCE, Filled, check, save
from tests.support.stores import fresh_namespace
from tests.support.workers import starting

PROCESS = Path(__file__).with_name("projects.py")

Harm = Callable[[random.Random], Awaitable[None]]


class Server:
    """A PostgreSQL that crashes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running = AsyncExitStack()
        self.url = url_of(directory)

    async def start(self) -> None:
        """Have it run; after a crash it recovers first."""
        self._process = await self._running.enter_async_context(serving(self._directory))

    async def stop(self) -> None:
        await self._running.aclose()

    async def harm(self, dice: random.Random) -> None:
        """SIGKILL for all of it, or SIGTERM for those of its processes that serve somebody."""
        if dice.random() < 0.3:
            _kill_all(self._process.pid)
            await self._process.wait()
            await self.stop()
            await self.start()
        elif dice.random() < 0.4:
            await asyncio.to_thread(self._cut_connections)

    def _cut_connections(self) -> None:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where backend_type = 'client backend' and pid <> pg_backend_pid()"
            )


def _kill_all(pid: int) -> None:
    """SIGKILL for a process of ours and its children, which have ended when this returns."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)  # it begins no more children
    children = [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    ends = [os.pidfd_open(each) for each in children]
    for each in children:
        os.kill(each, signal.SIGKILL)
    for end in ends:  # a server that starts while one has its shared memory would refuse
        assert select.select([end], [], [], PATIENCE)[0]
        os.close(end)
    os.kill(pid, signal.SIGKILL)


async def nothing(dice: random.Random) -> None:
    """A database in the process that is killed anyway."""


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
async def harmed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[str, Harm]]:
    """The URL of a database, and what does it harm."""
    if request.param != "postgresql":
        pytest.importorskip("duckdb" if request.param == "duckdb" else "sqlite3")
        yield f"{request.param}:///{tmp_path}/tables.db", nothing
        return
    pytest.importorskip("psycopg")
    with tempfile.TemporaryDirectory(prefix="pg") as directory:
        server = Server(Path(directory))
        try:
            await make(Path(directory))
            await server.start()
        except Unavailable as error:
            pytest.skip(str(error))
        try:
            yield server.url, server.harm
        finally:
            await server.stop()


@pytest.mark.parametrize("side_by_side", [1, 2])
@pytest.mark.parametrize("kills", [3, pytest.param(75, marks=pytest.mark.long)])
async def test_the_tables_are_a_fold_of_the_log_whoever_was_killed(
    embedded_path: Path,
    purging_at_once: None,
    harmed: tuple[str, Harm],
    side_by_side: int,
    kills: int,
) -> None:
    to, harm = harmed
    namespace, dice = fresh_namespace(), random.Random(kills + side_by_side)
    sessions, saved = [f"s{n}" for n in range(5)], dict.fromkeys(range(5), 0)
    fell = 0
    async with (
        foldlog.connect(path=embedded_path, namespace=namespace) as store,
        starting(PROCESS, embedded_path, namespace, to) as start,
    ):
        running = [await start(dice.randrange(1, 40)) for _ in range(side_by_side)]
        for each in running:
            assert await each.hear() == ["ready"]
        for _ in range(kills):
            for _ in range(dice.randrange(1, 12)):
                n = dice.randrange(5)
                count = dice.randrange(1, 15)
                await save(store, sessions[n], range(max(saved[n] - 3, 0), saved[n] + count))
                saved[n] += count
                if n == 0 and dice.random() < 0.3:  # what is forked is not cleared
                    await store.fork(sessions[n], at=await store.position())
                elif n and dice.random() < 0.2:
                    await store.clear_session(sessions[n])
            await harm(dice)
            victim = running.pop(dice.randrange(len(running)))
            fell += victim.process.returncode is not None
            await victim.kill()
            running.append(await start(dice.randrange(1, 40)))
            assert await running[-1].hear() == ["ready"]
        for each in running:
            await each.kill()
        database = Database(to)
        async with Projecting(store, ALL, to=to) as last:
            await last.caught_up(timeout=PATIENCE)
        filled = Filled(database)
        assert await filled.rows("select * from foldlog_parked") == []
        await check(store, filled, sessions)
        await database.close()
        assert fell or kills < 10, "some died in a commit"
