"""The ASGI application: the protocol's methods, headers and live reads."""

from __future__ import annotations

import asyncio
import base64
import inspect
import math
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from foldlog.bounds import RETRY_SECONDS, Budget, Refused, read_body
from foldlog.errors import FoldlogError
from foldlog.opening import Store
from foldlog.serving import OWN_NAMES
from foldlog.streams import asking, deciding
from foldlog.streams.asking import Reading
from foldlog.streams.deciding import JSON, Outcome, is_text, media_type
from foldlog.streams.feeds import FEEDS, Feeds
from foldlog.streams.keeping import Look, Source, Streams, key_of
from foldlog.streams.waking import Wakes
from foldlog.ui.application import failed
from foldlog.ui.safety import refused_response
from foldlog.ui.streaming import HEARTBEAT_SECONDS, STILL_HERE, Events, Left, leaving

Verb = Literal["create", "append", "read", "delete"]
Authorize = Callable[[Request, str, Verb], bool | Awaitable[bool]]

# How long a stream of events goes on.
EVENTS_SECONDS: Final = 60.0

# Cursors count intervals of 20 seconds since 2024-10-09; one that is repeated jumps by an hour.
_EPOCH: Final = 1_728_432_000.0
_INTERVAL: Final = 20
_JITTER: Final = 180

_VERBS: Final[dict[str, Verb]] = {
    "GET": "read",
    "HEAD": "read",
    "PUT": "create",
    "POST": "append",
    "DELETE": "delete",
}
_EVENTS: Final = {"cache-control": "no-cache"}
_BASE64: Final = {"stream-sse-data-encoding": "base64"}
_PATH_CHARACTERS: Final = 1_000
_RESERVED: Final = "__ds"

_encode: Final = msgspec.json.Encoder().encode


@dataclass
class Served:
    """What the application serves: see `foldlog.streams.application`."""

    store: Store
    authorize: Authorize | None
    origins: Collection[str]
    max_bytes: int
    max_readers: int
    poll_seconds: float

    def __post_init__(self) -> None:
        self.origins = frozenset(self.origins)
        self._streams = Streams(self.store)
        self._wakes = Wakes(self.store, ("streams",))
        self._feeds = Feeds(self.store)
        self._readers = 0
        self._budget = Budget()

    def app(self) -> Starlette:
        """The application."""
        methods = [*_VERBS, "OPTIONS"]
        return Starlette(routes=[Route("/{path:path}", self.serve, methods=methods)])

    async def serve(self, request: Request) -> Response:
        """Answer one request."""
        try:
            response = await self._served(request, request.path_params["path"])
        except Refused as refused:
            response = refused_response(refused)
        except FoldlogError as error:
            response = await failed(request, error)
        for name, value in self._security(request).items():
            response.headers.setdefault(name, value)
        return response

    async def _served(self, request: Request, path: str) -> Response:
        if request.method == "OPTIONS":
            allowed = {"methods": ", ".join(_VERBS), "headers": "Authorization, *"}
            headers = {f"access-control-allow-{name}": value for name, value in allowed.items()}
            return Response(status_code=204, headers=headers)
        if not path or len(path) > _PATH_CHARACTERS or path.partition("/")[0] == _RESERVED:
            raise Refused(404, "there are no streams of that name")
        await self._check(request, path, _VERBS[request.method])
        match request.method:
            case "GET":
                return await self._get(request, path)
            case _ if path.startswith(f"{FEEDS}/"):
                raise Refused(405, "a feed is only read, by GET", allow="GET")
            case "HEAD":
                headers = deciding.described(await self._streams.state(path))
                return Response(headers=headers)
            case "DELETE":
                outcome = await self._streams.delete(path)
            case _:
                with self._budget.hold() as hold:
                    body = bytes(await read_body(request, hold, self.max_bytes))
                    outcome = await self._written(request, path, body)
        response = Response(status_code=outcome.status, headers=outcome.headers)
        if outcome.status == 201:
            response.headers["location"] = str(request.url)
        return response

    async def _written(self, request: Request, path: str, body: bytes) -> Outcome:
        # A look-up in Starlette's headers goes through all of them.
        headers = dict(request.headers)
        content_type = headers.get("content-type", "")
        if request.method == "POST":
            if body and not content_type:
                raise Refused(400, "Content-Type: say what is appended")
            asked = asking.asked(headers, content_type, body)
            if not asked.pieces and (body or not asked.closes):
                raise Refused(400, "the body is empty: there is nothing to append")
            return await self._streams.append(path, asked)
        opened = asking.opening(headers, request.scope.get("root_path", ""))
        if opened.source:
            await self._check(request, opened.source, "read")
            if not content_type and body:
                source = deciding.there(await self._streams.state(opened.source))
                content_type = source.content_type
        asked = asking.asked(headers, content_type, body)
        return await self._streams.create(path, opened, asked)

    # --- who may ask ----------------------------------------------------------------------------

    async def _check(self, request: Request, path: str, verb: Verb) -> None:
        """Raises Refused: this request may not do this."""
        origin = request.headers.get("origin")
        if verb != "read" and origin is not None and not self._is_allowed(request, origin):
            raise Refused(403, "a page of another origin may not write")
        if self.authorize is None:
            client = request.client.host if request.client else ""
            host = urlsplit(f"//{request.headers.get('host', '')}").hostname
            if client not in OWN_NAMES or host not in OWN_NAMES:
                raise Refused(403, "without authorize= only this machine is served")
            return
        found = self.authorize(request, path, verb)
        if not (await found if inspect.isawaitable(found) else found):
            raise Refused(403, f"you may not {verb} this stream")

    def _is_allowed(self, request: Request, origin: str) -> bool:
        if origin in self.origins or "*" in self.origins:
            return True
        place = urlsplit(origin)
        if self.authorize is None and place.hostname in OWN_NAMES:
            return True
        return place.netloc == request.headers.get("host")

    def _security(self, request: Request) -> dict[str, str]:
        headers = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
        # A stream that says it is HTML does nothing in the name of who serves it.
        headers["content-security-policy"] = "sandbox"
        headers["cross-origin-resource-policy"] = "cross-origin" if self.origins else "same-site"
        origin = request.headers.get("origin")
        if origin is not None and self._is_allowed(request, origin):
            headers |= {"access-control-allow-origin": origin, "vary": "Origin"}
            headers["access-control-expose-headers"] = "*"
        return headers

    # --- reading --------------------------------------------------------------------------------

    async def _get(self, request: Request, path: str) -> Response:
        asked = asking.reading(request.scope["query_string"])
        kinds = request.query_params.getlist("kind")
        if path.startswith(f"{FEEDS}/"):
            source = self._feeds.at(path, kinds)
        else:
            stream = await self._streams.state(path)
            opened = deciding.there(stream)
            await self._streams.touch(path, stream)
            look = partial(self._streams.look, path, stream=None if asked.live else stream)
            listening = partial(self._wakes.listening, key_of(path).keys)
            source = Source(stream.id, opened.content_type, look, listening)
        if not asked.live:
            return self._answer(request, source, asked, await source.look(asked.after))
        together = partial(self._streams.look_together, (path, *kinds), source)
        source = source._replace(look=together)
        if self._readers >= self.max_readers:
            raise Refused(503, "as many read as may", retry_after=str(RETRY_SECONDS))
        if asked.live == "sse":
            encoded = {} if is_text(source.content_type) else _BASE64
            return Events(partial(self._events, source, asked), **_EVENTS, **encoded)
        until = asyncio.get_running_loop().time() + self.poll_seconds
        with self._reading():
            async with (
                leaving(request.receive) as left,
                aclosing(_looks(source, asked.after, left, until)) as looks,
            ):
                async for found in looks:
                    if found.bodies or found.is_closed:
                        break
        return self._answer(request, source, asked, found)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Count a reader."""
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1

    async def _events(self, source: Source, asked: Reading, left: Left) -> AsyncGenerator[bytes]:
        """Yield what there is behind an offset, then what comes, for about a minute."""
        until = asyncio.get_running_loop().time() + EVENTS_SECONDS
        # Where it goes wrong, the next request is answered with what it is.
        with self._reading(), suppress(Refused, FoldlogError):
            async with aclosing(
                _looks(source, asked.after, left, until, HEARTBEAT_SECONDS)
            ) as looks:
                is_first = True
                async for found in looks:
                    is_news = found.bodies or found.is_closed or is_first
                    yield _event(source, asked, found) if is_news else STILL_HERE
                    is_first = False

    def _answer(self, request: Request, source: Source, asked: Reading, found: Look) -> Response:
        headers = {"content-type": source.content_type, "stream-next-offset": found.end}
        if found.is_whole:
            headers["stream-up-to-date"] = "true"
        if found.is_closed:
            headers["stream-closed"] = "true"
        elif asked.live:
            headers["stream-cursor"] = cursor_behind(asked.cursor)
        if asked.live and not found.bodies:
            return Response(status_code=204, headers=headers)
        if asked.after is not None:
            closed = ":c" if found.is_closed else ""
            headers["etag"] = f'"{source.id}:{asked.after}:{found.end}{closed}"'
            # What a full page has never changes; another one is asked for again.
            whole = "no-cache" if found.is_whole else "max-age=60, stale-while-revalidate=300"
            headers["cache-control"] = f"private, {whole}"
            if not asked.live and headers["etag"] in request.headers.get("if-none-match", ""):
                return Response(status_code=304, headers=headers)
        return Response(_body(source, found.bodies), headers=headers)


def _event(source: Source, asked: Reading, found: Look) -> bytes:
    """What was found, as server-sent events."""
    control: dict[str, object] = {"streamNextOffset": found.end}
    if found.is_closed:
        control["streamClosed"] = True
    else:
        control["streamCursor"] = cursor_behind(asked.cursor)
    if found.is_whole:
        control["upToDate"] = True
    said = b"event: control\ndata:" + _encode(control) + b"\n\n"
    if not found.bodies:
        return said
    body = _body(source, found.bodies)
    if not is_text(source.content_type):
        body = base64.b64encode(body)
    # A reader takes each of the three for the end of a line.
    lines = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return b"event: data\n" + b"".join(b"data:%s\n" % line for line in lines) + b"\n" + said


async def _looks(
    source: Source,
    after: str | None,
    left: Left,
    until: float,
    pause: float = math.inf,
) -> AsyncGenerator[Look]:
    """Yield what there is, then whenever there may be more, and after each pause.

    It ends when the reader leaves, or at a time of the loop.
    """
    loop = asyncio.get_running_loop()
    async with source.listening() as wake:
        left.add_done_callback(lambda _: wake.set())
        while True:
            wake.clear()
            found = await source.look(after)
            after = found.end
            yield found
            if left.done() or found.is_closed or loop.time() >= until:
                return
            if found.is_whole:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(min(until, loop.time() + pause)):
                        await wake.wait()


def _body(source: Source, bodies: list[bytes]) -> bytes:
    """What records have, as one body."""
    if media_type(source.content_type) == JSON:
        return b"[%s]" % b",".join(bodies)
    return b"".join(bodies)


def cursor_behind(given: str) -> str:
    """The cursor of this moment, which is greater than the one that a reader has."""
    now = int((time.time() - _EPOCH) // _INTERVAL)
    had = int(given) if given.isascii() and given.isdigit() and len(given) < 19 else -1
    return str(now if had < now else had + random.randint(1, _JITTER))
