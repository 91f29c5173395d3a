"""One server that a test may break, and a proxy in front of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.proxy import Proxy
from tests.support.server import LocalServer


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LocalServer]:
    async with LocalServer(tmp_path / "server") as server:
        yield server


@pytest.fixture
async def proxy(server: LocalServer) -> AsyncIterator[Proxy]:
    async with Proxy(server.url) as proxy:
        yield proxy
