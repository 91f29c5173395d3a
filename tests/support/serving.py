"""An ASGI application on a port of its own, over real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any


@asynccontextmanager
async def serving_http(application: Any) -> AsyncIterator[str]:
    """Serve an application while the block runs; yields its URL."""
    import uvicorn

    # Of TCP by name, so that asyncio sends without delay.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
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
