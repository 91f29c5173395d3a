"""The page on a port of this machine, for `foldlog ui` and `foldlog demo --ui`."""

from __future__ import annotations

import getpass
import webbrowser
from collections.abc import Callable
from typing import Any

from foldlog import serving
from foldlog.opening import Store
from foldlog.ui import app


async def serve(
    store: Store,
    *,
    port: int = 0,
    browser: bool = True,
    read_only: bool = False,
    streams: Any = None,
    announce: Callable[[str], None],
) -> None:
    """Serve the page of a store on 127.0.0.1 until Ctrl-C or SIGTERM.

    Args:
        port: 0: a free one.
        browser: open the address in the user's browser.
        streams: an application that is served at /streams, to who is let in.
        announce: gets the address, with its token, once it is served.

    Raises:
        ConfigurationError: Starlette or uvicorn is missing, or the port is taken.
    """
    application = app(store, user=_user(), read_only=read_only, hosts=serving.OWN_NAMES)
    if streams is not None:
        application.mount("/streams", streams)

    def started(port: int) -> None:
        url = f"http://{serving.LOOPBACK}:{port}/?token={application.state.token}"
        announce(url)
        if browser:
            webbrowser.open(url)

    # Pages that follow a run have no end of their own.
    await serving.serve(
        application, port=port, extra="ui", started=started, timeout_graceful_shutdown=1
    )


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return None
