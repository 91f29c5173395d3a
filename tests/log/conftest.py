"""Logs of every backend, each over a fresh namespace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from foldlog.log.embedded import EmbeddedServer
from foldlog.log.jetstream import JetStreamLog
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Log
from foldlog.subjects import Namespace
from tests.support.archived import EagerlyArchived
from tests.support.stores import fresh_namespace

OpenLog = Callable[..., Awaitable[Log]]


not_archived = pytest.mark.parametrize("open_log", ["memory", "jetstream"], indirect=True)
"""For what a shard itself counts: it has manifests besides, and no more of what was archived."""


ARCHIVED = pytest.param("archived", marks=pytest.mark.long)


@pytest.fixture(params=["memory", "jetstream", ARCHIVED])
async def open_log(
    request: pytest.FixtureRequest, embedded_path: Path, tmp_path: Path
) -> AsyncIterator[OpenLog]:
    """Opens logs over one fresh namespace; on memory, always the same log."""
    name = fresh_namespace()
    if request.param == "memory":
        logs: dict[int, MemoryLog] = {}

        async def open_memory(shards: int = 1) -> Log:
            return logs.setdefault(shards, MemoryLog(Namespace(name, shards)))

        yield open_memory
        return
    if request.param == "archived":
        below = dict[int, EagerlyArchived]()

        async def open_archived(shards: int = 1) -> Log:
            if shards not in below:
                log = MemoryLog(Namespace(name, shards))
                below[shards] = EagerlyArchived(log, tmp_path / str(shards))
            return below[shards]

        yield open_archived
        for archived in below.values():
            await archived.close()
        return
    server = await EmbeddedServer.join(embedded_path)
    opened: list[Log] = []

    async def open_jetstream(shards: int = 1) -> Log:
        options = {"user": server.user, "password": server.password}
        opened.append(await JetStreamLog.open(server.url, name, shards=shards, options=options))
        return opened[-1]

    yield open_jetstream
    for log in opened:
        await log.close()
    await server.leave()


@pytest.fixture
async def log(open_log: OpenLog) -> Log:
    """A log over an empty namespace."""
    return await open_log()
