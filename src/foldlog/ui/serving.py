"""The page on a port of this machine, for `foldlog ui` and `foldlog demo --ui`."""

from __future__ import annotations

import asyncio
import getpass
import signal
import socket
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from foldlog.errors import ConfigurationError
from foldlog.opening import Store
from foldlog.ui import app

_HOST = "127.0.0.1"


async def serve(
    store: Store,
    *,
    port: int = 0,
    browser: bool = True,
    read_only: bool = False,
    announce: Callable[[str], None],
) -> None:
    """Serve the page of a store on 127.0.0.1 until Ctrl-C or SIGTERM.

    Args:
        port: 0: a free one.
        browser: open the address in the user's browser.
        announce: gets the address, with its token, once it is served.

    Raises:
        ConfigurationError: Starlette or uvicorn is missing, or the port is taken.
    """
    application = app(store, user=_user(), read_only=read_only, hosts=(_HOST, "localhost", "::1"))
    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "the page needs Starlette and uvicorn: pip install 'foldlog[ui]'"
        ) from error
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((_HOST, port))
    except OSError as error:
        listening.close()
        raise ConfigurationError(f"port {port} cannot be used: {error.strerror}") from error
    url = f"http://{_HOST}:{listening.getsockname()[1]}/?token={application.state.token}"

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # uvicorn would raise them again before the store is closed

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            announce(url)
            if browser:
                webbrowser.open(url)

    # Pages that follow a run have no end of their own.
    config = uvicorn.Config(
        application,
        log_level="critical",
        access_log=False,
        timeout_graceful_shutdown=1,
        lifespan="off",
    )
    server = Server(config)

    def stop() -> None:
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    with listening:
        await server.serve([listening])


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return None
