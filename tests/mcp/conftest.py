"""A log that is filled once for all tests, which only read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

import foldlog
from foldlog.importer import demo_transcript
from tests.cli.support import Cli
from tests.support.stores import fresh_namespace

if TYPE_CHECKING:
    from tests.mcp.support import Client

collect_ignore_glob = [] if find_spec("mcp") else ["test_*.py"]


@pytest.fixture(scope="session")
def log(embedded_path: Path) -> Cli:
    """The bundled conversations, and what `fill` saves."""
    from tests.mcp.support import fill

    log = Cli(embedded_path, fresh_namespace())
    assert log("import", demo_transcript()).code == 0

    async def filled() -> None:
        async with foldlog.connect(**log.place, timeout=60) as store:
            await fill(store)

    asyncio.run(filled())
    return log


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def ask(log: Cli) -> AsyncIterator[Client]:
    """A client of a server on that log, for all tests. A task has it: it ends where it began."""
    from tests.mcp.support import asking

    begun: asyncio.Queue[Client | None] = asyncio.Queue()
    over = asyncio.Event()

    async def own() -> None:
        try:
            async with asking(log) as client:
                begun.put_nowait(client)
                await over.wait()
        finally:
            begun.put_nowait(None)

    owner = asyncio.create_task(own())
    client = await begun.get()
    if client is not None:
        yield client
    over.set()
    await owner
