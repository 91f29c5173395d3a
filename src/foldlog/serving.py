"""ASGI applications on a port, until Ctrl-C or SIGTERM: the page, and the receiver of traces."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from foldlog.errors import ConfigurationError

LOOPBACK: Final = "127.0.0.1"
OWN_NAMES: Final = (LOOPBACK, "localhost", "::1")
"""By which a server on the loopback address is asked."""


async def serve(
    application: Any,
    *,
    host: str = LOOPBACK,
    port: int = 0,
    extra: str,
    started: Callable[[int], None],
    **options: Any,
) -> None:
    """Serve an application until Ctrl-C or SIGTERM.

    Args:
        port: 0: a free one.
        extra: which of foldlog's extras brings uvicorn.
        started: gets the port, once it is served.
        options: of `uvicorn.Config`.

    Raises:
        ConfigurationError: uvicorn is missing, or the port cannot be used.
    """
    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"this needs uvicorn: pip install 'foldlog[{extra}]'") from error
    listening = _listening(host, port)

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # uvicorn would raise them again before the store is closed

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started(listening.getsockname()[1])

    config = uvicorn.Config(
        application, log_level="critical", access_log=False, **{"lifespan": "off"} | options
    )
    server = Server(config)

    def stop() -> None:
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    with listening:
        await server.serve([listening])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # asyncio sends without delay on sockets that are said to be of TCP.
        made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise ConfigurationError(f"{host} cannot be used: {error.strerror}") from error
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise ConfigurationError(
            f"port {port} cannot be used: {error.strerror}; 0 takes a free one"
        ) from error
    return made
