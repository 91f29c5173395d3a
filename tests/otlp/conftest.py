"""The receiver on a port of this machine, and spans as OpenTelemetry's SDK makes and sends them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from importlib.util import find_spec
from typing import Any

import pytest

import foldlog
from tests.support.in_memory_first import backend as backend

NEEDED = ("starlette", "uvicorn", "httpx", "opentelemetry.exporter")
if not all(find_spec(name.partition(".")[0]) and find_spec(name) for name in NEEDED):
    collect_ignore_glob = ["test_*.py"]  # the environments of the frameworks do without it

Serving = Callable[..., AbstractAsyncContextManager[str]]


@pytest.fixture
def serving() -> Serving:
    """Serves the receiver of a store, with a real server; gives its address."""
    import uvicorn

    from foldlog import otlp

    @asynccontextmanager
    async def serve(store: foldlog.Store, **options: Any) -> AsyncIterator[str]:
        application = otlp.app(store, **options)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            config = uvicorn.Config(application, log_level="warning", lifespan="off")
            server = uvicorn.Server(config)
            server.capture_signals = nullcontext  # type: ignore[assignment]
            ready, startup = asyncio.Event(), server.startup

            async def started(sockets: list[socket.socket] | None = None) -> None:
                await startup(sockets)
                ready.set()

            server.startup = started  # type: ignore[method-assign]
            task = asyncio.create_task(server.serve([listening]))
            try:
                await ready.wait()
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                server.should_exit = server.force_exit = True
                await task

    return serve
