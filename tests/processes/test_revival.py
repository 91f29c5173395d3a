"""Members whose supervisor has ended go on by themselves, all on one server."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest

import foldlog
from foldlog.log.embedded.binary import find_binary
from foldlog.log.embedded.layout import Layout
from foldlog.store import EmbeddedHealth
from tests.embedded.conftest import ended, kill, parent, processes
from tests.support.build import update
from tests.support.workers import PATIENCE, StartWorker


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


async def ids(store: foldlog.Store) -> list[str]:
    listed = await store.list_updates("session", limit=10_000, consistency="strong")
    return [u.update_id for u in listed]


async def embedded(store: foldlog.Store) -> EmbeddedHealth:
    found = (await store.health()).embedded
    assert found is not None
    return found


async def end_supervisor(
    store: foldlog.Store, path: Path, number: signal.Signals = signal.SIGKILL
) -> None:
    """Send its supervisor a signal, and wait until nothing of the server is left."""
    running = processes(path)
    await kill(parent((await embedded(store)).pid or 0), number)
    await ended(*running)


# Told to end, a supervisor takes the address with it, and the next server has another.
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_store_goes_on_after_its_supervisor_has_ended(
    path: Path, number: signal.Signals
) -> None:
    async with foldlog.connect(path=path) as store:
        await store.save_update(update("before"))
        await end_supervisor(store, path, number)
        await store.save_update(update("after"))
        assert await ids(store) == ["before", "after"]
        description = Layout(path).read_description()
        assert description is not None
        assert (await embedded(store)).port == description.port
        assert (await embedded(store)).pid in processes(path)
    assert processes(path) == set()


async def test_a_watcher_goes_on_too(path: Path) -> None:
    async with (
        foldlog.connect(path=path) as store,
        aclosing(cast(Any, store.watch_updates("session"))) as watched,
    ):
        await store.save_update(update("before"))
        assert (await anext(watched)).update_id == "before"
        await end_supervisor(store, path)
        await store.save_update(update("after"))
        assert (await anext(watched)).update_id == "after"


async def test_many_members_start_one_server(path: Path, start_worker: StartWorker) -> None:
    async with foldlog.connect(path=path) as store, foldlog.connect(path=path) as other:
        workers = [await start_worker("obey", "session", f"{n}-") for n in range(4)]
        for worker in workers:
            assert await worker.hear() == "ready"
        acked: list[str] = []
        for kills in range(4):
            if kills:
                await end_supervisor(store, path)
            for worker in workers:
                worker.tell()
            mine = [update(f"store-{kills}"), update(f"other-{kills}")]
            await asyncio.gather(store.save_update(mine[0]), other.save_update(mine[1]))
            acked += [u.update_id for u in mine]
            acked += [await worker.hear() for worker in workers]

            log = (path / "server.log").read_text()
            assert log.count("Server is ready") == log.count("Starting nats-server") == kills + 1
            server = (await embedded(store)).pid
            running = processes(path)
            assert running == {server, parent(server or 0)}
            assert sorted(await ids(other)) == sorted(acked)
        for worker in workers:
            await worker.finish()
    assert processes(path) == set()


async def test_what_keeps_a_server_away_is_named_until_it_is_gone(
    path: Path, tmp_path: Path
) -> None:
    binary, broken = tmp_path / "server", tmp_path / "broken"
    binary.symlink_to(find_binary())
    broken.write_text("#!/bin/sh\necho no good; exit 3\n")
    broken.chmod(0o700)
    async with foldlog.connect(path=path, server_binary=str(binary), timeout=0.3) as store:
        await store.save_update(update("before"))
        os.replace(broken, binary)
        await end_supervisor(store, path)

        async def reason() -> str:
            with pytest.raises(foldlog.LogUnavailable) as error:
                await store.save_update(update("lost"))
            return str(error.value)

        async with asyncio.timeout(PATIENCE):
            while "no good" not in await reason():
                pass  # it has not been tried yet

        binary.unlink()
        binary.symlink_to(find_binary())
        async with aclosing(cast(Any, store.watch_updates("session"))) as watched:
            assert (await anext(watched)).update_id == "before"  # waits for the log
        await store.save_update(update("after"))
        assert await ids(store) == ["before", "after"]


async def test_a_store_says_that_its_directory_was_removed(
    path: Path, start_worker: StartWorker
) -> None:
    async with foldlog.connect(path=path, timeout=0.3) as store:
        await store.save_update(update("lost"))
        running = processes(path)
        shutil.rmtree(path)
        worker = await start_worker("save", "session", "next-", 2)
        assert await worker.hear_rest() == ["next-0", "next-1"]
        await worker.finish()
        await ended(*running)
        with pytest.raises(foldlog.LogUnavailable, match="were removed while this store was open"):
            await store.save_update(update("refused"))
    async with foldlog.connect(path=path) as store:
        assert await ids(store) == ["next-0", "next-1"]


async def test_closing_while_the_server_is_being_revived(path: Path) -> None:
    store = await foldlog.connect(path=path)
    await end_supervisor(store, path)
    await store.close()
    assert processes(path) == set()
