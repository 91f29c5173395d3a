"""Streams over HTTP that browsers resume: the Durable Streams Protocol on the log.

The guide is `docs/guides/streams.md`.

    application = foldlog.streams.application(store)     # for any ASGI server, or to mount in yours

`foldlog serve --http PORT` does this on a port of 127.0.0.1. Needs the extra `foldlog[ui]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from foldlog.errors import ConfigurationError
from foldlog.opening import Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from starlette.applications import Starlette

MAX_BYTES: Final = 16 * 1024 * 1024
"""Bytes that a request may append."""

MAX_READERS: Final = 20_000
"""Readers that may wait at a time."""

POLL_SECONDS: Final = 20.0
"""Seconds that a long-poll waits."""


def application(
    store: Store,
    *,
    authorize: Callable[[Any, str, Any], bool | Awaitable[bool]] | None = None,
    origins: Collection[str] = (),
    max_bytes: int = MAX_BYTES,
    max_readers: int = MAX_READERS,
    poll_seconds: float = POLL_SECONDS,
) -> Starlette:
    """Return streams over HTTP, as an ASGI application. It leaves the store open.

    Serve it at the root of a host, or mount it: `Mount("/streams", application(store))`. It needs
    no lifespan events. Run it on the event loop that the store was opened on. The stream at
    `sessions/<session>/<name>` belongs to that session, and is cleared, erased and forked with it.
    An append is answered once it is in the log.

    Args:
        store: the store that has the streams.
        authorize: called with the request, which is Starlette's, with the path of the stream below
            the application and with "create", "append", "read" or "delete"; returns whether that is
            allowed. It may be a coroutine function. None: requests from this machine to 127.0.0.1
            or localhost are served, and no others.
        origins: origins such as `https://app.example` whose pages may read and write; "*" for all.
            Pages of the application's own origin always may, as far as `authorize` lets them.
        max_bytes: bytes that a request may append.
        max_readers: long-polls and event streams that may wait at a time.
        poll_seconds: seconds that a long-poll waits for something new.

    Raises:
        ConfigurationError: Starlette is not installed.
    """
    try:
        from foldlog.streams.serving import Served
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "streams need Starlette and uvicorn: pip install 'foldlog[ui]'"
        ) from error
    return Served(store, authorize, origins, max_bytes, max_readers, poll_seconds).app()


__all__ = ["MAX_BYTES", "MAX_READERS", "POLL_SECONDS", "application"]
