"""Server-sent events, and those of a run: what there is, then what comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, nullcontext
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

_HEADERS: Final = {"content-type": "text/event-stream", "x-accel-buffering": "no"}

STILL_HERE: Final = b": still here\n\n"
"""What an idle stream sends."""

Left = asyncio.Task[None]
"""Is done once a reader has left."""


class Events(Response):
    """Sends server-sent events until they end, or their reader leaves or takes nothing."""

    def __init__(self, events: Callable[[Left], AsyncGenerator[bytes]], **headers: str) -> None:
        super().__init__(headers=_HEADERS | headers)
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the events."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async with leaving(receive) as left, aclosing(self._events(left)) as events:
                async for data in events:
                    async with asyncio.timeout(SEND_SECONDS):
                        await send({"type": "http.response.body", "body": data, "more_body": True})
        except TimeoutError:
            return  # nobody reads: the server closes a connection whose answer is not whole
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@asynccontextmanager
async def leaving(receive: Receive) -> AsyncIterator[Left]:
    """Give what is done once the reader has left."""

    async def leave() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    left = asyncio.create_task(leave(), name="foldlog reader leaves")
    try:
        yield left
    finally:
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)


async def events_of(
    store: Store, hub: Hub, run: Run, after: LogPosition | None, left: Left
) -> AsyncGenerator[bytes]:
    """Yield the records of a run behind a position, then each new one, until the reader leaves."""
    try:
        # Followed first, so that nothing falls between what is read and what comes.
        async with hub.follow(run) as (outbox, views):
            left.add_done_callback(lambda _: outbox.end())
            yield b"retry: 1000\n\n"
            firsts = await asyncio.gather(*(first_of(store, key) for key in views))
            names = [[key.kind.name, *key.keys] for key in views]
            yield b"event: views\n" + message(list(zip(names, firsts, strict=True)))
            more, limit, size = True, FIRST_PAGE, FIRST_BYTES
            while more and not left.done():
                # The first page is small, and waits for nobody.
                async with hub.reading if limit > FIRST_PAGE else nullcontext():
                    page = await read_page(store, views, after, limit=limit, max_bytes=size)
                after, more, limit, size = page.position, page.more, PAGE, PAGE_BYTES
                yield message(page.records, after)
            yield b"event: live\n" + message(None)
            while (data := await _next(outbox)) is not None:
                if data is STILL_HERE:
                    await store.position()  # shows an idle reader if the log is away
                yield data
            if outbox.is_overrun:
                yield b"event: behind\n" + message(None)
    except FoldlogError as error:
        text = {"error": {"type": type(error).__name__, "message": str(error)}}
        yield b"event: failed\n" + message(text)


async def _next(outbox: Outbox) -> bytes | None:
    """The next message; a comment where none comes for long; None at the end."""
    try:
        async with asyncio.timeout(HEARTBEAT_SECONDS):
            return await outbox.get()
    except TimeoutError:
        return STILL_HERE
