"""The ASGI application: addresses, static files, and errors as the API says them."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from foldlog.bounds import Budget, Refused
from foldlog.errors import (
    AlreadyAnswered,
    AppendConflict,
    AppendFailed,
    AppendUnknown,
    FoldlogError,
    IdTaken,
    InvalidId,
    LogUnavailable,
    Misuse,
    NotFound,
    PastErased,
    PayloadError,
    PayloadTooLarge,
    ReadOnlyStore,
    SessionExists,
    SessionHasForks,
    SteeringValidationError,
    StoreClosed,
    UnknownMoment,
    WaitingExpired,
)
from foldlog.opening import Store
from foldlog.sessions import IllegalTransition, MergeRefused
from foldlog.ui.acting import Acting
from foldlog.ui.reading import Reading
from foldlog.ui.safety import Access, Guard, refusal, refused_response
from foldlog.ui.share import STATIC

_STATUSES: Final[dict[type[FoldlogError], int]] = {
    AlreadyAnswered: 409,
    AppendConflict: 409,
    IdTaken: 409,
    AppendFailed: 503,
    IllegalTransition: 409,
    MergeRefused: 409,
    Misuse: 409,
    SessionExists: 409,
    SessionHasForks: 409,
    NotFound: 404,
    UnknownMoment: 404,
    PastErased: 410,
    WaitingExpired: 410,
    InvalidId: 400,
    PayloadError: 400,
    PayloadTooLarge: 413,
    SteeringValidationError: 400,
    ReadOnlyStore: 403,
    LogUnavailable: 503,
    AppendUnknown: 503,
    StoreClosed: 503,
}

_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def make_app(store: Store, access: Access) -> Starlette:
    """Return the application: see `foldlog.ui.app`."""
    reading, acting = Reading(store, access), Acting(store)
    reads = (
        *("about", "sessions", "session", "records", "record", "events", "waiting"),
        *("queues", "artifact", "share"),
    )
    writes = ("answer", "steer", "fork", "feedback", "queue")
    routes = [
        Route("/", _index),
        Route("/static/{path:path}", _static),
        Route("/api/openapi.json", reading.openapi),
        *(Route(f"/api/{name}", getattr(reading, name)) for name in reads),
        *(Route(f"/api/{name}", getattr(acting, name), methods=["POST"]) for name in writes),
    ]
    made = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={Refused: _refused, FoldlogError: failed, Exception: _broken},
    )
    made.state.token = access.token
    made.state.budget = Budget()
    return made


async def _index(request: Request) -> Response:
    return await _file(request, "index.html", "text/html")


async def _static(request: Request) -> Response:
    path = request.path_params["path"]
    type_ = next((t for end, t in _TYPES.items() if path.endswith(end)), None)
    if type_ is None:
        raise Refused(404, "there is no such file")
    return await _file(request, path, type_)


async def _file(request: Request, name: str, type_: str) -> Response:
    try:
        path = (STATIC / name).resolve()
        is_there = path.is_relative_to(STATIC.resolve()) and path.is_file()
    except (OSError, ValueError):  # no system has files of such a name
        is_there = False
    if not is_there:
        raise Refused(404, "there is no such file")
    # A page that was updated must not run with a module of the one before.
    tag = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    headers = {"cache-control": "no-cache", "etag": f'"{tag}"'}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return FileResponse(path, media_type=f"{type_}; charset=utf-8", headers=headers)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return refused_response(error)


async def _broken(request: Request, error: Exception) -> Response:
    """What is foldlog's own mistake; the server's log has it."""
    return refusal(500, "InternalError", f"{type(error).__name__}: see the log of this server")


async def failed(request: Request, error: Exception) -> Response:
    """What the store refused, by the name of its error."""
    status = next((_STATUSES[t] for t in type(error).__mro__ if t in _STATUSES), 500)
    more: dict[str, Any] = (
        {"decision": error.decision} if isinstance(error, AlreadyAnswered) else {}
    )
    if isinstance(error, SteeringValidationError):
        more = {"errors": error.errors}
    return refusal(status, type(error).__name__, str(error), **more)
