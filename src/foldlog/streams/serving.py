"""The ASGI application: the protocol's methods, headers and live reads."""

from __future__ import annotations

import asyncio
import base64
import inspect
import ipaddress
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from foldlog.bounds import RETRY_SECONDS, Budget, Refused, read_body
from foldlog.errors import (
    AppendFailed,
    AppendUnknown,
    FoldlogError,
    InvalidId,
    LogUnavailable,
    PayloadError,
    PayloadTooLarge,
    ReadOnlyStore,
    SessionHasForks,
    StoreClosed,
)
from foldlog.opening import Store
from foldlog.serving import OWN_NAMES
from foldlog.streams import asking, deciding
from foldlog.streams.asking import Reading
from foldlog.streams.deciding import JSON, Outcome, is_text, media_type
from foldlog.streams.keeping import Look, Streams, key_of
from foldlog.streams.waking import Wakes

Verb = Literal["create", "append", "read", "delete"]
Authorize = Callable[[Request, str, Verb], bool | Awaitable[bool]]

EVENTS_SECONDS: Final = 60.0
"""How long a stream of events goes on before its reader is asked to come again."""

HEARTBEAT_SECONDS: Final = 15.0
"""How often an idle stream of events says that it lives."""

SEND_SECONDS: Final = 30.0
"""How long a reader may take for what it is sent."""

_EPOCH: Final = 1_728_432_000.0
_INTERVAL: Final = 20
_JITTER: Final = 180
"""Cursors count intervals of 20 seconds since 2024-10-09; one that is repeated jumps by an hour."""

_VERBS: Final[dict[str, Verb]] = {
    "GET": "read",
    "HEAD": "read",
    "PUT": "create",
    "POST": "append",
    "DELETE": "delete",
}
_EXPOSED: Final = (
    "Stream-Next-Offset, Stream-Cursor, Stream-Up-To-Date, Stream-Closed, Stream-TTL, "
    "Stream-Expires-At, Stream-SSE-Data-Encoding, Producer-Epoch, Producer-Seq, "
    "Producer-Expected-Seq, Producer-Received-Seq, ETag, Location"
)
_ALLOWED: Final = (
    "Content-Type, Authorization, If-None-Match, Stream-Seq, Stream-TTL, Stream-Expires-At, "
    "Stream-Closed, Stream-Forked-From, Stream-Fork-Offset, Stream-Fork-Sub-Offset, Producer-Id, "
    "Producer-Epoch, Producer-Seq"
)
_PATH_CHARACTERS: Final = 1_000
_RESERVED: Final = "__ds"
_AWAY: Final = (LogUnavailable, AppendFailed, AppendUnknown, StoreClosed)
_STATUSES: Final[dict[type[FoldlogError], int]] = {
    PayloadTooLarge: 413,
    PayloadError: 400,
    InvalidId: 400,
    ReadOnlyStore: 405,
    SessionHasForks: 409,
}

_encode: Final = msgspec.json.Encoder().encode


class Served:
    """What the application serves: see `foldlog.streams.application`."""

    def __init__(
        self,
        store: Store,
        authorize: Authorize | None,
        origins: Collection[str],
        max_bytes: int,
        max_readers: int,
        poll_seconds: float,
    ) -> None:
        self._streams = Streams(store)
        self._wakes = Wakes(store)
        self._authorize = authorize
        self._origins = frozenset(origins)
        self._max_bytes = max_bytes
        self._max_readers = max_readers
        self._poll_seconds = poll_seconds
        self._readers = 0
        self._budget = Budget()

    def app(self) -> Starlette:
        """The application."""
        methods = [*_VERBS, "OPTIONS"]
        return Starlette(routes=[Route("/{path:path}", self.serve, methods=methods)])

    async def serve(self, request: Request) -> Response:
        """Answer one request."""
        try:
            response = await self._served(request)
        except Refused as refused:
            response = _refusal(refused.status, refused.reason, refused.headers)
        except _AWAY as error:
            again = {"Retry-After": str(RETRY_SECONDS)}
            response = _refusal(503, f"{type(error).__name__}: {error}", again)
        except FoldlogError as error:
            status = next((_STATUSES[t] for t in type(error).__mro__ if t in _STATUSES), 500)
            response = _refusal(status, f"{type(error).__name__}: {error}")
        for name, value in self._security(request).items():
            response.headers.setdefault(name, value)
        return response

    async def _served(self, request: Request) -> Response:
        path, method = request.path_params["path"], request.method
        if method == "OPTIONS":
            headers = {"Access-Control-Allow-Methods": ", ".join(_VERBS)}
            headers |= {"Access-Control-Allow-Headers": _ALLOWED, "Access-Control-Max-Age": "600"}
            return Response(status_code=204, headers=headers)
        if not path or len(path) > _PATH_CHARACTERS or path.partition("/")[0] == _RESERVED:
            raise Refused(404, "there are no streams of that name")
        await self._check(request, path, _VERBS[method])
        match method:
            case "GET":
                return await self._get(request, path)
            case "HEAD":
                stream = await self._streams.state(path)
                outcome = deciding.missing(stream) or Outcome(200, (), deciding.described(stream))
            case "DELETE":
                outcome = await self._streams.delete(path)
            case _:
                with self._budget.hold() as hold:
                    body = bytes(await read_body(request, hold, self._max_bytes))
                    outcome = await self._written(request, path, body)
        if outcome.status >= 400:
            return _refusal(outcome.status, outcome.reason, outcome.headers)
        headers = {"Cache-Control": "no-store", **outcome.headers}
        if outcome.status == 201:
            headers["Location"] = str(request.url)
        return Response(status_code=outcome.status, headers=headers)

    async def _written(self, request: Request, path: str, body: bytes) -> Outcome:
        headers = request.headers
        content_type = headers.get("content-type", "")
        if request.method == "PUT":
            opened = asking.opening(headers, request.scope.get("root_path", ""))
            if opened.source:
                await self._check(request, opened.source, "read")
                if not content_type and body:
                    source = (await self._streams.state(opened.source)).opened
                    content_type = "" if source is None else source.content_type
            if media_type(content_type) == JSON and body.strip() == b"[]":
                body = b""
            asked = asking.asked(headers, content_type, body)
            return await self._streams.create(path, opened, asked)
        if body and not content_type:
            raise Refused(400, "Content-Type: say what is appended")
        asked = asking.asked(headers, content_type, body)
        if not asked.pieces and not asked.closes:
            raise Refused(400, "the body is empty: there is nothing to append")
        return await self._streams.append(path, asked)

    # --- who may ask ----------------------------------------------------------------------------

    async def _check(self, request: Request, path: str, verb: Verb) -> None:
        """Raises Refused: this request may not do this."""
        origin = request.headers.get("origin")
        if verb != "read" and origin is not None and not self._is_allowed(request, origin):
            raise Refused(403, "a page of another origin may not write")
        if self._authorize is None:
            client = request.client.host if request.client else ""
            if not _is_loopback(client) or request.url.hostname not in OWN_NAMES:
                raise Refused(403, "without authorize= only this machine is served")
            return
        found = self._authorize(request, path, verb)
        if not (await found if inspect.isawaitable(found) else found):
            raise Refused(403, f"you may not {verb} this stream")

    def _is_allowed(self, request: Request, origin: str) -> bool:
        if origin in self._origins or "*" in self._origins:
            return True
        place = urlsplit(origin)
        if self._authorize is None and place.hostname in OWN_NAMES:
            return True
        return place.netloc == request.headers.get("host")

    def _security(self, request: Request) -> dict[str, str]:
        headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
        headers["Cross-Origin-Resource-Policy"] = "cross-origin" if self._origins else "same-site"
        origin = request.headers.get("origin")
        if origin is not None and self._is_allowed(request, origin):
            headers |= {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
            headers |= {"Access-Control-Expose-Headers": _EXPOSED}
            if "*" not in self._origins:
                headers["Access-Control-Allow-Credentials"] = "true"
        return headers

    # --- reading --------------------------------------------------------------------------------

    async def _get(self, request: Request, path: str) -> Response:
        asked = asking.reading(request.scope["query_string"])
        if asked.after is not None:
            deciding.checked_offset(asked.after)
        stream = await self._streams.state(path)
        refused = deciding.missing(stream)
        if refused is not None or stream.opened is None:
            raise Refused(404 if refused is None else refused.status, "there is no such stream")
        await self._streams.touch(path, stream)
        type_ = stream.opened.content_type
        reader = Reader(self._streams, self._wakes, path, type_, asked)
        if not asked.live:
            return self._answer(request, stream.id, reader, await reader.look(asked.after))
        if self._readers >= self._max_readers:
            raise Refused(503, "as many read as may", retry_after=str(RETRY_SECONDS))
        if asked.live == "sse":
            return Events(reader, self._counted)
        async with self._counted(), _leaving(request.receive) as left:
            found = await reader.poll(left, self._poll_seconds)
        return self._answer(request, stream.id, reader, found)

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1

    def _answer(self, request: Request, id: str, reader: Reader, found: Look) -> Response:
        asked = reader.asked
        headers = {"Content-Type": reader.content_type, "Stream-Next-Offset": found.end}
        if found.is_whole:
            headers["Stream-Up-To-Date"] = "true"
        if found.is_closed:
            headers["Stream-Closed"] = "true"
        if asked.live and not found.is_closed:
            headers["Stream-Cursor"] = cursor_behind(asked.cursor)
        if asked.live and not found.bodies:
            return Response(status_code=204, headers=headers)
        if asked.after is not None:
            tag = f"{id}:{asked.after}:{found.end}{':c' if found.is_closed else ''}"
            headers["ETag"] = f'"{tag}"'
            # What a full page has never changes; another one is asked for again.
            whole = "no-cache" if found.is_whole else "max-age=60, stale-while-revalidate=300"
            headers["Cache-Control"] = f"private, {whole}"
            if not asked.live and headers["ETag"] in request.headers.get("if-none-match", ""):
                return Response(status_code=304, headers=headers)
        return Response(reader.body(found.bodies), headers=headers)


class Reader:
    """One read of a stream, and what comes next."""

    def __init__(
        self, streams: Streams, wakes: Wakes, path: str, content_type: str, asked: Reading
    ) -> None:
        self._streams = streams
        self._wakes = wakes
        self._path = path
        self.content_type = content_type
        self.asked = asked

    async def look(self, after: str | None) -> Look:
        """See `Streams.look`."""
        return await self._streams.look(self._path, after)

    def listening(self) -> Any:
        """See `Wakes.listening`."""
        return self._wakes.listening(key_of(self._path).keys)

    def body(self, bodies: list[bytes]) -> bytes:
        """What records have, as one body."""
        if media_type(self.content_type) == JSON:
            return b"[%s]" % b",".join(bodies)
        return b"".join(bodies)

    async def poll(self, left: asyncio.Future[None], seconds: float) -> Look:
        """What there is; else what comes in that time, unless the reader leaves."""
        async with self.listening() as arm:
            until = asyncio.get_running_loop().time() + seconds
            after = self.asked.after
            while True:
                woken = arm()
                found = await self.look(after)
                if found.bodies or found.is_closed or left.done():
                    return found
                after = found.end
                if not await _any(woken, left, until):
                    return found


class Events(Response):
    """Sends what there is behind an offset as events, then what comes, for about a minute."""

    def __init__(self, reader: Reader, counted: Callable[[], Any]) -> None:
        super().__init__()
        self._reader = reader
        self._counted = counted
        self.headers["content-type"] = "text/event-stream"
        self.headers["cache-control"] = "no-cache"
        self.headers["x-accel-buffering"] = "no"
        del self.headers["content-length"]
        if not is_text(reader.content_type):
            self.headers["stream-sse-data-encoding"] = "base64"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the events."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async with self._counted(), _leaving(receive) as left:
                await self._follow(send, left)
        except (TimeoutError, Refused, FoldlogError):
            pass  # nobody reads, or it is gone: who asks again is told
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _follow(self, send: Send, left: asyncio.Future[None]) -> None:
        loop, reader = asyncio.get_running_loop(), self._reader
        until, after, is_first = loop.time() + EVENTS_SECONDS, reader.asked.after, True
        async with reader.listening() as arm:
            while not left.done() and loop.time() < until:
                woken = arm()
                found = await reader.look(after)
                after = found.end
                if found.bodies or is_first or found.is_closed:
                    await _send(send, self._events(found))
                    is_first = False
                if found.is_closed:
                    return
                if found.is_whole:
                    pause = min(until, loop.time() + HEARTBEAT_SECONDS)
                    if not await _any(woken, left, pause):
                        await _send(send, b": still here\n\n")

    def _events(self, found: Look) -> bytes:
        control: dict[str, object] = {"streamNextOffset": found.end}
        if found.is_closed:
            control["streamClosed"] = True
        else:
            control["streamCursor"] = cursor_behind(self._reader.asked.cursor)
        if found.is_whole:
            control["upToDate"] = True
        said = b"event: control\ndata:" + _encode(control) + b"\n\n"
        if not found.bodies:
            return said
        body = self._reader.body(found.bodies)
        if not is_text(self._reader.content_type):
            body = base64.b64encode(body)
        # A reader takes each of the three for the end of a line.
        lines = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        return b"event: data\n" + b"".join(b"data:%s\n" % line for line in lines) + b"\n" + said


def cursor_behind(given: str) -> str:
    """The cursor of this moment, which is greater than the one that a reader has."""
    now = int((time.time() - _EPOCH) // _INTERVAL)
    had = int(given) if given.isascii() and given.isdigit() and len(given) < 19 else -1
    return str(now if had < now else had + random.randint(1, _JITTER))


@asynccontextmanager
async def _leaving(receive: Receive) -> AsyncIterator[asyncio.Future[None]]:
    """A task that is done once the reader has left."""

    async def leave() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    task = asyncio.create_task(leave(), name="foldlog reader leaves")
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _any(woken: asyncio.Future[None], left: asyncio.Future[None], until: float) -> bool:
    """Wait for either; False if neither came by a time of the loop."""

    def wake(_: asyncio.Future[None]) -> None:
        if not woken.done():
            woken.set_result(None)

    left.add_done_callback(wake)
    try:
        async with asyncio.timeout_at(until):
            await woken
    except TimeoutError:
        return False
    finally:
        left.remove_done_callback(wake)
    return True


async def _send(send: Send, data: bytes) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        await send({"type": "http.response.body", "body": data, "more_body": True})


def _refusal(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    error = {"error": {"type": "Refused", "message": reason}}
    return JSONResponse(error, status_code=status, headers=headers)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
