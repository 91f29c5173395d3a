"""Streams on a port of this machine, over any backend."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from importlib.util import find_spec
from typing import Any

import pytest

import foldlog

if not all(find_spec(name) for name in ("starlette", "uvicorn", "httpx")):
    collect_ignore_glob = ["test_*.py"]  # the environments of the frameworks do without them

Serving = Callable[..., AbstractAsyncContextManager[str]]


@pytest.fixture
def serving() -> Serving:
    """Serves the streams of a store, with a real server; gives its address."""
    return served


@asynccontextmanager
async def served(store: foldlog.Store, **options: Any) -> AsyncIterator[str]:
    """See `serving`."""
    import uvicorn

    from foldlog import streams

    application = streams.application(store, **options)
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
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
