"""The ASGI application: `POST /v1/traces`, and what OTLP/HTTP has a server answer.

Exporters send a batch again after 429, 502, 503 and 504, and drop it after any other refusal.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import zlib
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from foldlog.errors import (
    AppendFailed,
    AppendUnknown,
    FoldlogError,
    LogUnavailable,
    StoreClosed,
)
from foldlog.otlp.mapping import Mapped
from foldlog.otlp.receiving import Receiver
from foldlog.otlp.wire import ENCODINGS, JSON, Encoding, Malformed

AT_ONCE: Final = 4
"""Requests that are unpacked and stored at a time; the others wait."""

BODY_SECONDS: Final = 30.0
"""How long a sender may take for a request."""

STORE_SECONDS: Final = 30.0
"""How long a batch may wait for the log."""

RETRY_SECONDS: Final = 5
"""When exporters are asked to send again what could not be stored."""

_AWAY: Final = (LogUnavailable, AppendFailed, AppendUnknown, StoreClosed, TimeoutError)
_OTHERS: Final = "foldlog takes traces, and no logs or metrics: set OTEL_{}_EXPORTER=none"

_log: Final = logging.getLogger("foldlog")


class Refused(Exception):
    """A request that is not served."""

    def __init__(self, status: int, reason: str, **headers: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers: dict[str, str] = {
            name.replace("_", "-"): value for name, value in headers.items()
        }


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
        self._free = asyncio.Semaphore(AT_ONCE)

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
        body = await self._body(request)
        unpack = _UNPACK.get(request.headers.get("content-encoding", "identity").strip().lower())
        if unpack is None:
            raise Refused(415, "the content encoding is gzip, or none")

        def read() -> tuple[list[Mapped], list[str]]:
            return self._receiver.map(encoding.read(unpack(body, self._max_bytes)))

        try:
            async with asyncio.timeout(STORE_SECONDS), self._free:
                outcome = await self._receiver.take(*await asyncio.to_thread(read))
        except Malformed as error:
            raise Refused(400, str(error)) from None
        except _AWAY as error:
            again = {"retry_after": str(RETRY_SECONDS)}
            raise Refused(503, f"nothing was acknowledged: {error}", **again) from error
        except FoldlogError as error:
            _log.warning("otlp_batch_failed", exc_info=error, extra={"event": "otlp_batch_failed"})
            raise Refused(500, f"{type(error).__name__}: {error}") from error
        return encoding.answer(*outcome)

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

    async def _body(self, request: Request) -> bytes:
        found = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for chunk in request.stream():
                    found += chunk
                    if len(found) > self._max_bytes:
                        raise _too_large(self._max_bytes)
        except TimeoutError:
            raise Refused(408, f"the request did not arrive within {BODY_SECONDS:g} s") from None
        except ClientDisconnect:
            raise Refused(400, "the sender left before its request was whole") from None
        return bytes(found)


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _host(header: str) -> str | None:
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None


def _too_large(limit: int) -> Refused:
    return Refused(413, f"a request has at most {limit:,} bytes: send smaller batches")


def _gunzip(body: bytes, limit: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        found = unpacker.decompress(body, limit + 1)
    except zlib.error:
        raise Malformed("the body is no gzip") from None
    if len(found) > limit:
        raise _too_large(limit)
    if not unpacker.eof:
        raise Malformed("the body is no whole gzip")
    return found


def _plain(body: bytes, limit: int) -> bytes:
    return body


_UNPACK: Final = {"gzip": _gunzip, "identity": _plain, "": _plain}
