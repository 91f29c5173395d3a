"""The ASGI application: `POST /v1/traces`, and what OTLP/HTTP has a server answer.

Exporters send a batch again after 429, 502, 503 and 504, and drop it after any other refusal.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import zlib
from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from typing import Final
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from foldlog.bounds import RETRY_SECONDS, SMALL_BYTES, Budget, Hold, Refused, read_body, too_large
from foldlog.errors import (
    AppendFailed,
    AppendUnknown,
    FoldlogError,
    LogUnavailable,
    StoreClosed,
)
from foldlog.otlp.mapping import Mapped
from foldlog.otlp.receiving import Receiver
from foldlog.otlp.wire import ENCODINGS, JSON, Encoding, Malformed, TooMany

_VALUE_BYTES: Final = 200
"""What a value takes when it is decoded, about."""

_TIMES: Final = 3
"""What texts and bytes take when they are decoded: as many times their size."""

_MANY: Final = 20_000
"""Requests of more values are decoded one after the other, so that others do not wait for them."""

STORE_SECONDS: Final = 30.0
"""How long a batch may wait for the log."""

_AWAY: Final = (LogUnavailable, AppendFailed, AppendUnknown, StoreClosed, TimeoutError)
_OTHERS: Final = "foldlog takes traces, and no logs or metrics: set OTEL_{}_EXPORTER=none"

_log: Final = logging.getLogger("foldlog")


def make_app(
    receiver: Receiver, *, token: str | None, hosts: Collection[str] | None, max_bytes: int
) -> Starlette:
    """Return the application: see `foldlog.otlp.app`."""
    served = _Served(receiver, token, hosts, max_bytes)
    return Starlette(
        routes=[
            Route("/v1/traces", served.traces, methods=["POST"]),
            Route("/v1/logs", served.others, methods=["POST"]),
            Route("/v1/metrics", served.others, methods=["POST"]),
        ],
    )


class _Served:
    def __init__(
        self, receiver: Receiver, token: str | None, hosts: Collection[str] | None, max_bytes: int
    ) -> None:
        self._receiver = receiver
        self._token = token
        self._hosts = None if hosts is None else frozenset(hosts)
        self._max_bytes = max_bytes
        self._budget = Budget()
        self._unpacking = asyncio.Semaphore(2)
        self._decoding = asyncio.Lock()

    async def traces(self, request: Request) -> Response:
        """Store a batch of spans, and then say so."""
        encoding = ENCODINGS.get(_media_type(request), JSON)
        try:
            answered = await self._store(request, encoding)
        except Refused as refused:
            body = encoding.refusal(refused.reason)
            return Response(body, refused.status, refused.headers, encoding.media_type)
        return Response(answered, media_type=encoding.media_type)

    async def others(self, request: Request) -> Response:
        """Say that only traces are taken."""
        encoding = ENCODINGS.get(_media_type(request), JSON)
        reason = _OTHERS.format(request.url.path.rpartition("/")[2].upper())
        return Response(encoding.refusal(reason), 404, media_type=encoding.media_type)

    async def _store(self, request: Request, encoding: Encoding) -> bytes:
        self._check(request)
        unpack = _UNPACK.get(request.headers.get("content-encoding", "identity").strip().lower())
        if unpack is None:
            raise Refused(415, "the content encoding is gzip, or none")
        try:
            with self._budget.hold() as hold:
                await read_body(request, hold, self._max_bytes)
                found = await self._decoded(hold, unpack, encoding)
                async with asyncio.timeout(STORE_SECONDS):
                    outcome = await self._receiver.take(*found)
        except Malformed as error:
            raise Refused(400, str(error)) from None
        except TooMany as error:
            raise too_large(error.most, error.what) from None
        except _AWAY as error:
            again = {"retry_after": str(RETRY_SECONDS)}
            raise Refused(503, f"nothing was acknowledged: {error}", **again) from error
        except FoldlogError as error:
            _log.warning("otlp_batch_failed", exc_info=error, extra={"event": "otlp_batch_failed"})
            raise Refused(500, f"{type(error).__name__}: {error}") from error
        return encoding.answer(*outcome)

    async def _decoded(
        self, hold: Hold, unpack: _Unpack, encoding: Encoding
    ) -> tuple[list[Mapped], list[str]]:
        """Decode what has arrived, once it is known how much that becomes."""

        def look(most: int) -> tuple[bytes, int]:
            body = unpack(hold.data, most)
            return body, encoding.values_of(body)

        if len(hold.data) < SMALL_BYTES:
            with suppress(Refused):  # it is larger when it is unpacked
                body, _ = self._taken(hold, *look(SMALL_BYTES))
                return self._receiver.map(encoding.read(body))
        async with self._unpacking:
            hold.take(self._max_bytes - len(hold.data))
            found = await asyncio.to_thread(look, self._max_bytes)
            hold.give(self._max_bytes)
            body, values = self._taken(hold, *found)
        async with self._decoding if values > _MANY else nullcontext():
            return await asyncio.to_thread(lambda: self._receiver.map(encoding.read(body)))

    def _taken(self, hold: Hold, body: bytes, values: int) -> tuple[bytes, int]:
        hold.take(_TIMES * len(body) + _VALUE_BYTES * values)
        hold.data.clear()
        return body, values

    def _check(self, request: Request) -> None:
        """Raises Refused: the request is not for this receiver, or not from who may send."""
        headers = request.headers
        if self._hosts is not None and _host(headers.get("host", "")) not in self._hosts:
            raise Refused(400, "this receiver is not served under that name")
        if "origin" in headers:
            raise Refused(403, "a page in a browser may not send: it could be any page")
        if self._token is not None:
            kind, _, given = headers.get("authorization", "").partition(" ")
            if kind.lower() != "bearer" or not hmac.compare_digest(
                given.strip().encode(), self._token.encode()
            ):
                raise Refused(401, "send the token: Authorization: Bearer ...")
        if _media_type(request) not in ENCODINGS:
            raise Refused(415, f"the content type is {' or '.join(ENCODINGS)}")


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _host(header: str) -> str | None:
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None


def _gunzip(body: bytearray, limit: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        found = unpacker.decompress(body, limit + 1)
    except zlib.error:
        raise Malformed("the body is no gzip") from None
    if len(found) > limit:
        raise too_large(limit)
    if not unpacker.eof:
        raise Malformed("the body is no whole gzip")
    return found


def _plain(body: bytearray, limit: int) -> bytes:
    return bytes(body)


_Unpack = Callable[[bytearray, int], bytes]
_UNPACK: Final[dict[str, _Unpack]] = {"gzip": _gunzip, "identity": _plain, "": _plain}
