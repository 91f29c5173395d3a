"""Degrading processes on a real server: both are killed, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest

import foldlog
from foldlog.log.embedded.binary import find_binary
from tests.processes.test_revival import end_supervisor
from tests.support.build import update
from tests.support.degrading import failures_of, spool_of
from tests.support.server import LocalServer
from tests.support.workers import PATIENCE, Worker, starting

SPOOLER = Path(__file__).with_name("spooler.py")
WITHOUT_END = 1_000_000

StartSpooler = Callable[[str], Awaitable[Worker]]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LocalServer]:
    async with LocalServer(tmp_path / "server") as running:
        yield running


@pytest.fixture
async def start_spooler(server: LocalServer, tmp_path: Path) -> AsyncIterator[StartSpooler]:
    """Starts a spooler whose ids begin with what is given, and hears that it is ready."""
    async with starting(SPOOLER, server.url, tmp_path / "spool", "session") as start:

        async def start_ready(prefix: str) -> Worker:
            worker = await start(prefix)
            assert await worker.hear() == "ready"
            return worker

        yield start_ready


async def heard(worker: Worker, updates: int) -> list[str]:
    """The ids of so many saves that have returned."""
    return [(await worker.hear())[0] for _ in range(updates)]


async def heard_until(worker: Worker, enough: Callable[[int], bool]) -> list[str]:
    """The ids of saves that return until enough wait in the spool, or few enough."""
    ids = list[str]()
    async with asyncio.timeout(PATIENCE):
        while True:
            id_, waiting = await worker.hear()
            ids.append(id_)
            if enough(waiting):
                return ids


async def kill(worker: Worker) -> list[str]:
    """SIGKILL it; return the ids that it still said."""
    await worker.kill()
    return [id_ for id_, _ in await worker.hear_rest()]


async def reopened(server: LocalServer, tmp_path: Path, **options: Any) -> foldlog.Store:
    return await foldlog.connect(server.url, spool=tmp_path / "spool", **options)


async def logged(store: foldlog.Store) -> list[str]:
    """The ids on the log as a fold takes them: each where it stands first."""
    subject = store._core.log.namespace.subject("updates", "session")
    pages = [page async for page in store._core.log.read(subject)]
    ids = (e.id for page in pages for record in page for e in record.envelopes)
    return list(dict.fromkeys(ids))


async def test_an_embedded_server_that_cannot_start(tmp_path: Path) -> None:
    path, binary, broken = (tmp_path / name for name in ("data", "server", "broken"))
    binary.symlink_to(find_binary())
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o700)
    connecting = foldlog.connect(
        path=path, server_binary=str(binary), on_error="degrade", timeout=0.3
    )
    async with connecting as store:
        await store.save_update(update("before"))
        os.replace(broken, binary)
        await end_supervisor(store, path)
        for number in range(3):
            await store.save_update(update(f"{number}"))
        assert (spool_of(store).waiting, spool_of(store).directory) == (3, str(path / "spool"))
        assert await store.list_updates("session") == []
        binary.unlink()
        binary.symlink_to(find_binary())
        async with aclosing(cast(Any, store.watch_updates("session"))) as watched:
            async with asyncio.timeout(PATIENCE):
                found = [(await anext(watched)).update_id for _ in range(4)]
        assert found == ["before", "0", "1", "2"]
        assert failures_of(store) == {"save_update": 3, "list_updates": 1}


@pytest.mark.parametrize("on_error", ["degrade", "raise"])
async def test_server_and_process_are_killed(
    server: LocalServer, start_spooler: StartSpooler, tmp_path: Path, on_error: str
) -> None:
    worker = await start_spooler("a")
    worker.tell(5)
    saved = await heard(worker, 5)
    await server.kill()
    worker.tell(20)
    saved += await heard(worker, 20)
    saved += await kill(worker)
    await server.start()
    # Whoever comes next appends what waits first, whether or not it degrades itself.
    async with await reopened(server, tmp_path, on_error=on_error) as store:
        await store.save_update(update("next"))
        assert await logged(store) == [f"a{n}" for n in range(25)] + ["next"]
        assert [u.update_id for u in await store.list_updates("session")] == await logged(store)
    assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.parametrize("kills", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (0, 2))])
async def test_killed_at_any_moment_of_a_flood(
    server: LocalServer, start_spooler: StartSpooler, tmp_path: Path, kills: int
) -> None:
    worker = await start_spooler("a")
    worker.tell(WITHOUT_END)
    saved = await heard(worker, 30)
    for _ in range(kills):
        await server.kill()
        saved += await heard_until(worker, lambda waiting: waiting >= 40)
        await server.start()
        # All is appended, although more and more comes behind.
        saved += await heard_until(worker, lambda waiting: waiting == 0)
    await server.kill()
    saved += await heard(worker, 50)
    saved += await kill(worker)
    await server.start()
    async with await reopened(server, tmp_path) as store:
        found = await logged(store)
        # What it was killed before it could say may be there, too.
        assert len(found) >= len(saved)
        assert found == [f"a{n}" for n in range(len(found))]
        assert saved == found[: len(saved)]


async def test_a_server_that_is_stopped_and_goes_on(
    server: LocalServer, start_spooler: StartSpooler, tmp_path: Path
) -> None:
    worker = await start_spooler("a")
    server.freeze()
    worker.tell(10)
    saved = await heard(worker, 10)  # the first was sent: nobody knows what became of it
    server.thaw()
    worker.tell(WITHOUT_END)
    saved += await heard_until(worker, lambda waiting: waiting == 0)
    saved += await kill(worker)
    async with await reopened(server, tmp_path) as store:
        found = await logged(store)
        assert found == [f"a{n}" for n in range(len(found))]
        assert saved == found[: len(saved)]


async def test_one_that_lives_appends_for_one_that_was_killed(
    server: LocalServer, start_spooler: StartSpooler, tmp_path: Path
) -> None:
    one, two = await start_spooler("one"), await start_spooler("two")
    await server.kill()
    for worker in (one, two):
        worker.tell(10)
        await heard(worker, 10)
    await kill(one)
    await server.start()
    async with (
        foldlog.connect(server.url) as observer,
        aclosing(observer.watch_updates("session")) as watched,
    ):
        async with asyncio.timeout(PATIENCE):
            found = [(await anext(watched)).update_id for _ in range(20)]
        for prefix in ("one", "two"):
            expected = [f"{prefix}{n}" for n in range(10)]
            assert [id_ for id_ in found if id_.startswith(prefix)] == expected
        assert await logged(observer) == found
    await two.finish()
    assert list((tmp_path / "spool").iterdir()) == []
