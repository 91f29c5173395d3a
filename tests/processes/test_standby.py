"""Degrading stores that are opened before their server is there, on a real one."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal, cast

import pytest

import foldlog
from foldlog.log.embedded.binary import find_binary
from tests.support.build import update
from tests.support.degrading import failures_of, spool_of
from tests.support.server import LocalServer
from tests.support.workers import PATIENCE, starting

SPOOLER = Path(__file__).with_name("spooler.py")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LocalServer]:
    """A server that does not run yet."""
    server = LocalServer(tmp_path / "server")
    yield server
    await server.kill()


class Lines(logging.Handler):
    """The structured lines about connecting, as they are written."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = asyncio.Queue[logging.LogRecord]()

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "event", None) == "statestore_connect_failed":
            self.queue.put_nowait(record)

    async def next(self) -> logging.LogRecord:
        async with asyncio.timeout(PATIENCE):
            return await self.queue.get()


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, log = Lines(), logging.getLogger("foldlog")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


def opening(url: str, tmp_path: Path, **options: Any) -> Any:
    settings = {"spool": tmp_path / "spool", "on_error": "degrade", "timeout": 0.5}
    return foldlog.connect(url, **cast(Any, settings | options))


async def watched(store: foldlog.Store, count: int) -> list[str]:
    async with (
        asyncio.timeout(PATIENCE),
        aclosing(cast(Any, store.watch_updates("session"))) as updates,
    ):
        return [(await anext(updates)).update_id for _ in range(count)]


async def logged(store: foldlog.Store) -> list[str]:
    """The ids on the log as a fold takes them: each where it stands first."""
    subject = store._core.log.namespace.subject("updates", "session")
    pages = [page async for page in store._core.log.read(subject)]
    ids = (e.id for page in pages for record in page for e in record.envelopes)
    return list(dict.fromkeys(ids))


@pytest.mark.parametrize("shards", [1, 3])
async def test_a_store_that_is_opened_before_its_server(
    server: LocalServer, tmp_path: Path, lines: Lines, shards: int
) -> None:
    async with opening(server.url, tmp_path, shards=shards) as store:
        assert (await lines.next()).levelno == logging.WARNING
        for n in range(3):
            await store.save_update(update(f"{n}"))
        assert await store.list_updates("session") == []
        assert ((await store.health()).away or "").startswith("LogUnavailable: no connection")
        await server.start()
        assert await watched(store, 3) == ["0", "1", "2"]
        await store.save_update(update("3"))
        saved = await store.artifact_store.put_bytes(b"bytes")
        assert await store.artifact_store.get(saved.id) == b"bytes"
        health = await store.health()
        assert (health.away, len(health.streams)) == (None, shards)
        # From now on its server may go and come as any other's.
        await server.kill()
        await store.save_update(update("4"))
        await server.start()
        assert await watched(store, 5) == ["0", "1", "2", "3", "4"]
        assert await logged(store) == ["0", "1", "2", "3", "4"]
    assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.usefixtures("purging_at_once")
async def test_once_its_server_is_there_it_is_complete(
    server: LocalServer, tmp_path: Path, lines: Lines
) -> None:
    archive = tmp_path / "archive"
    async with opening(server.url, tmp_path, archive=archive) as store:
        await lines.next()
        with pytest.raises(foldlog.ConfigurationError, match="no archive"):
            await store.archive()
        await store.save_update(update("0"))
        await server.start()
        assert await watched(store, 1) == ["0"]
        assert (await store.archive(everything=True)).records > 0
        assert len((await store.health()).archive) == 1
        assert "foldlog archive" in {task.get_name() for task in asyncio.all_tasks()}
        assert store._core.hot_views.snapshots is not None
        assert await store.verify()
    assert "foldlog archive" not in {task.get_name() for task in asyncio.all_tasks()}
    async with opening(server.url, tmp_path, archive=archive, on_error="raise") as store:
        assert [u.update_id for u in await store.list_updates("session")] == ["0"]


async def test_a_process_that_is_killed_before_it_has_seen_its_server(
    server: LocalServer, tmp_path: Path
) -> None:
    async with starting(SPOOLER, server.url, tmp_path / "spool", "session") as start:
        worker = await start("a")
        assert await worker.hear() == "ready"
        worker.tell(1_000_000)
        saved = [(await worker.hear())[0] for _ in range(40)]
        await worker.kill()
        saved += [id_ for id_, _ in await worker.hear_rest()]
    await server.start()
    async with opening(server.url, tmp_path, on_error="raise") as store:
        found = await logged(store)
        assert found == [f"a{n}" for n in range(len(found))]
        assert saved == found[: len(saved)]
    assert list((tmp_path / "spool").iterdir()) == []


async def test_credentials_that_are_refused(
    server: LocalServer, tmp_path: Path, lines: Lines
) -> None:
    wrong = server.url.replace("test:", "test:no")
    async with opening(wrong, tmp_path) as store:
        await lines.next()
        await store.save_update(update("a"))
        await server.start()
        told = await lines.next()  # only now can it be known
        assert (told.levelno, vars(told)["method"]) == (logging.ERROR, "connect")
        assert ((await store.health()).away or "").startswith("ConfigurationError: ")
        assert failures_of(store) == {"connect": 2, "save_update": 1}
        assert spool_of(store).waiting == 1
    with pytest.raises(foldlog.ConfigurationError):
        await opening(wrong, tmp_path)


async def test_a_namespace_that_was_made_otherwise(server: LocalServer, tmp_path: Path) -> None:
    await server.start()
    async with opening(server.url, tmp_path, shards=2):
        pass
    with pytest.raises(foldlog.ConfigurationError, match=r"2 shard\(s\)"):
        await opening(server.url, tmp_path, shards=3)


async def test_connecting_may_be_cancelled(server: LocalServer, tmp_path: Path) -> None:
    connecting = asyncio.ensure_future(_opened(opening(server.url, tmp_path, timeout=PATIENCE)))
    await asyncio.sleep(0)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting


async def _opened(connecting: Any) -> foldlog.Store:
    return cast(foldlog.Store, await connecting)


async def test_an_embedded_server_may_be_waited_for(
    tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FOLDLOG_SPOOL", raising=False)
    missing = tmp_path / "nats-server"
    options = {"path": tmp_path / "data", "server_binary": str(missing)}
    with pytest.raises(foldlog.ServerStartFailed, match="not a program"):
        await foldlog.connect(**cast(Any, options)).open_or_spool()
    connecting = foldlog.connect(**cast(Any, options), on_error="degrade")
    async with await connecting.open_or_spool() as store:
        assert (await lines.next()).levelno == logging.ERROR
        await store.save_update(update("0"))
        assert ((await store.health()).away or "").startswith("ServerStartFailed: ")
        missing.symlink_to(find_binary())
        assert await watched(store, 1) == ["0"]
        embedded = (await store.health()).embedded
        assert embedded is not None
        assert embedded.pid is not None
    with pytest.raises(ProcessLookupError):  # its server ended with it, as any store's
        os.kill(embedded.pid, 0)


@pytest.mark.parametrize("on_error", ["raise", "degrade"])
async def test_an_embedded_server_that_cannot_be_started_raises(
    tmp_path: Path, on_error: Literal["raise", "degrade"]
) -> None:
    missing = str(tmp_path / "nats-server")
    with pytest.raises(foldlog.ServerStartFailed, match="not a program"):
        await foldlog.connect(path=tmp_path / "data", server_binary=missing, on_error=on_error)
