"""Who may ask, and what a browser is allowed to do with the answer.

One middleware decides about every request: the host, the token or the proxy's header, and for
writes the origin and a token that only this page can read. Responses carry a policy under which
no inline script runs and no other host is asked.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection
from typing import Final
from urllib.parse import SplitResult, parse_qs, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foldlog.bounds import Refused
from foldlog.errors import ConfigurationError

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page's Content-Security-Policy."""

_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_READING: Final = frozenset({"GET", "HEAD"})
_CSRF_HEADER: Final = "x-foldlog-csrf"


class Access:
    """Who may ask: see `foldlog.ui.app` for the arguments.

    Attributes:
        csrf: what a write must carry in a header; the page reads it from `/api/about`.
    """

    def __init__(
        self,
        *,
        token: str | None = None,
        user_header: str | None = None,
        user: str | None = None,
        read_only: bool = False,
        hosts: Collection[str] | None = None,
    ) -> None:
        if token is not None and user_header is not None:
            raise ConfigurationError("token and user_header: one of them lets people in")
        if token == "" or user_header == "":
            raise ConfigurationError("token, user_header: an empty one would let everybody in")
        self.user_header = user_header
        self.token: str | None = None if user_header else token or secrets.token_urlsafe(24)
        self.read_only = read_only
        self.csrf: str = secrets.token_urlsafe(24)
        self._user = user or "local"
        self._hosts = None if hosts is None else frozenset(hosts)
        # Cookies are shared by all ports of a host, so that each page's has a name of its own.
        named = hashlib.sha256((self.token or "").encode()).hexdigest()
        self.cookie: str = f"foldlog-{named[:12]}"

    def user_of(self, headers: Headers) -> str:
        """Return who asks.

        Raises:
            Refused: nobody who may.
        """
        if self.user_header is not None:
            user = headers.get(self.user_header, "").strip()
            if not user:
                raise Refused(401, f"the proxy did not say who you are in {self.user_header}")
            return user[:200]
        # What other pages of this host keep in cookies need not be what the standard allows.
        cookies = cookie_parser(headers.get("cookie", ""))
        if self._has_token(headers) or self._is_token(cookies.get(self.cookie, "")):
            return self._user
        raise Refused(401, "use what `foldlog ui` or `foldlog mcp` printed: it has the token")

    def takes(self, token: str) -> bool:
        """Whether a token from an address lets in."""
        return self.token is not None and self._is_token(token)

    def check_host(self, headers: Headers) -> None:
        """Raises Refused: it asks for another host than this page's."""
        host = _split(f"//{headers.get('host', '')}").hostname
        if self._hosts is not None and host not in self._hosts:
            raise Refused(400, "this page is not served under that name")

    def check_write(self, headers: Headers) -> None:
        """Raises Refused: the write does not come from this page, or nothing may be written."""
        if self.read_only:
            raise Refused(403, "this page is read-only")
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise Refused(403, "a write must come from this page")
        origin = headers.get("origin")
        if origin is not None and _split(origin).netloc != headers.get("host", ""):
            raise Refused(403, "a write must come from this page")
        if self._has_token(headers):
            return  # a browser may add a password by itself, but no token
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise Refused(415, "a write is application/json")
        if not _same(headers.get(_CSRF_HEADER, ""), self.csrf):
            raise Refused(403, f"a write carries what /api/about says as {_CSRF_HEADER}")

    def _has_token(self, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and self._is_token(given)

    def _is_token(self, given: str) -> bool:
        return self.token is not None and _same(given, self.token)


class Guard:
    """The middleware: serves who may ask, and sets the headers of every response."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        response: ASGIApp
        try:
            response = self._decide(scope)
        except Refused as refused:
            response = refused_response(refused)
        await response(scope, receive, guarded)

    def _decide(self, scope: Scope) -> ASGIApp:
        """The application, or a way in by the token of the address."""
        headers = Headers(scope=scope)
        self._access.check_host(headers)
        query = parse_qs(scope["query_string"].decode("latin-1"))
        token = query.pop("token", [""])[0]
        if token and scope["method"] in _READING and self._access.takes(token):
            return self._let_in(scope, token, query)
        scope["foldlog.user"] = self._access.user_of(headers)
        if scope["method"] not in _READING:
            self._access.check_write(headers)
        return self._app

    def _let_in(self, scope: Scope, token: str, query: dict[str, list[str]]) -> Response:
        """Keep the token in a cookie, and take it out of the address."""
        rest = urlencode(query, doseq=True)
        path = "/" + scope["path"].lstrip("/")  # two slashes would name another host
        response = RedirectResponse(path + (f"?{rest}" if rest else ""), status_code=303)
        response.set_cookie(
            self._access.cookie,
            token,
            path=scope.get("root_path") or "/",
            secure=scope.get("scheme") == "https",
            httponly=True,
            samesite="strict",
        )
        return response


def refusal(status: int, type_: str, message: str, **more: object) -> JSONResponse:
    """Return an error as the API says it."""
    return JSONResponse({"error": {"type": type_, "message": message, **more}}, status_code=status)


def refused_response(refused: Refused) -> JSONResponse:
    """Return the answer to a request that is not served."""
    response = refusal(refused.status, "Refused", refused.reason)
    response.headers.update(refused.headers)
    return response


def _split(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError:
        raise Refused(400, "a header names no host") from None


def _same(a: str, b: str) -> bool:
    return hmac.compare_digest(a.encode(), b.encode())
