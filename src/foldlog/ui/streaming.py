"""The server-sent events of a run: what there is, then what comes."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from foldlog.bounds import Outbox
from foldlog.errors import FoldlogError
from foldlog.opening import Store
from foldlog.position import LogPosition
from foldlog.ui.following import Hub, first_of, message
from foldlog.ui.run import PAGE, Run, read_page

HEARTBEAT_SECONDS: Final = 15.0
"""How often an idle stream says that it lives."""

FIRST_PAGE: Final = 500
FIRST_BYTES: Final = 128 * 1024
"""The first page, which a reader sees soon; others are as long as a page may be."""

PAGE_BYTES: Final = 1024 * 1024
"""Bytes of a page of what there is: as much waits for a reader that does not read."""

SEND_SECONDS: Final = 30.0
"""How long a reader may take for a message before its stream ends."""

_STILL_HERE: Final = b": still here\n\n"
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class EventStream(Response):
    """Sends the records of a run behind a position, then each new one, until the reader leaves."""

    def __init__(self, store: Store, hub: Hub, run: Run, after: LogPosition | None) -> None:
        super().__init__()
        self._store = store
        self._hub = hub
        self._run = run
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the stream."""
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        try:
            await self._follow(receive, send)
        except TimeoutError:
            return  # nobody reads: the server closes a connection whose answer is not whole
        except FoldlogError as error:
            text = {"error": {"type": type(error).__name__, "message": str(error)}}
            await _send(send, b"event: failed\n" + message(text))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _follow(self, receive: Receive, send: Send) -> None:
        # Followed first, so that nothing falls between what is read and what comes.
        async with self._hub.follow(self._run) as (outbox, views):
            leaving = asyncio.create_task(_leave(receive, outbox))
            try:
                await _send(send, b"retry: 1000\n\n")
                firsts = await asyncio.gather(*(first_of(self._store, key) for key in views))
                names = [[key.kind.name, *key.keys] for key in views]
                found = list(zip(names, firsts, strict=True))
                await _send(send, b"event: views\n" + message(found))
                after, more, limit, size = self._after, True, FIRST_PAGE, FIRST_BYTES
                while more and not leaving.done():
                    # The first page is small, and waits for nobody.
                    async with self._hub.reading if limit > FIRST_PAGE else nullcontext():
                        page = await read_page(
                            self._store, views, after, limit=limit, max_bytes=size
                        )
                    after, more, limit, size = page.position, page.more, PAGE, PAGE_BYTES
                    await _send(send, message(page.records, after))
                await _send(send, b"event: live\n" + message(None))
                while (data := await _next(outbox)) is not None:
                    if data is _STILL_HERE:
                        await self._store.position()  # shows an idle reader if the log is away
                    await _send(send, data)
                if outbox.is_overrun:
                    await _send(send, b"event: behind\n" + message(None))
            finally:
                leaving.cancel()
                await asyncio.gather(leaving, return_exceptions=True)


async def _next(outbox: Outbox) -> bytes | None:
    """The next message; a comment where none comes for long; None at the end."""
    try:
        async with asyncio.timeout(HEARTBEAT_SECONDS):
            return await outbox.get()
    except TimeoutError:
        return _STILL_HERE


async def _leave(receive: Receive, outbox: Outbox) -> None:
    """End the stream once its reader has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    outbox.end()


async def _send(send: Send, data: bytes) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        await send({"type": "http.response.body", "body": data, "more_body": True})
