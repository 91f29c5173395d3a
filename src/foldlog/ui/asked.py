"""What a request asks, checked: parameters of the address, and the fields of a body."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any, Final

from starlette.requests import Request

from foldlog.bounds import Refused, read_body
from foldlog.position import LogPosition
from foldlog.store.forks import When
from foldlog.ui.run import Run

MAX_BODY: Final = 1_000_000
"""Bytes of a request."""

DOING: Final = ("start", "pause", "resume", "send-again", "unschedule")
"""What is done to queues."""

_MOST: Final = 1e15
"""Of a number, on either side of 0."""

_MISSING: Final = object()


def text(request: Request, name: str, default: str | None = None) -> str:
    """A parameter of the address. Raises Refused: it is missing, and has no default."""
    found = request.query_params.get(name, default)
    if found is None:
        raise Refused(400, f"the parameter {name} is missing")
    return found


def number(request: Request, name: str, default: int, most: int) -> int:
    """A parameter that is a number from 0 to `most`. Raises Refused: it is none."""
    found = request.query_params.get(name, "")
    if not found:
        return default
    if not (found.isascii() and found.isdigit()):
        raise Refused(400, f"the parameter {name} is no number")
    return min(int(found[:9]), most)


def run(request: Request) -> Run:
    """The session or the trace that is asked for. Raises Refused: neither, or both."""
    session = request.query_params.get("session")
    trace = request.query_params.get("trace")
    if session and not trace:
        return Run("session", session)
    if trace and not session:
        return Run("trace", trace)
    raise Refused(400, "name a session or a trace")


def position(request: Request, name: str) -> LogPosition | None:
    """A position of the log, if one is given. Raises UnknownMoment: it is none."""
    found = request.query_params.get(name)
    return LogPosition.parse(found) if found else None


def moment(given: str | None) -> When | None:
    """What `Store.at` takes: a position, a time, or an event's id.

    Raises Refused: it looks like a time, and is none. UnknownMoment: it looks like a position.
    """
    if not given:
        return None
    if given.startswith("@"):
        return LogPosition.parse(given)
    if len(given) >= 10 and given[4:5] == "-" and given[:4].isdigit():
        try:
            time = dt.datetime.fromisoformat(given)
        except ValueError:
            raise Refused(400, f"{given!r:.80} is no time") from None
        return time if time.tzinfo else time.replace(tzinfo=dt.UTC)
    return given


async def body(request: Request) -> Body:
    """The JSON object of a request. Raises Refused: it is none, or too large."""
    with request.app.state.budget.hold() as hold:
        data = await read_body(request, hold, MAX_BODY)
        try:
            found = json.loads(bytes(data))
        except (ValueError, RecursionError):
            raise Refused(400, "the body is no JSON") from None
    if not isinstance(found, dict):
        raise Refused(400, "the body is a JSON object")
    return Body(found)


class Body:
    """The fields of a request."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def text(self, name: str) -> str:
        """A text. Raises Refused: it is missing, or none."""
        found = self.optional(name)
        if not found:
            raise Refused(400, f"{name} is missing")
        return found

    def optional(self, name: str) -> str | None:
        """A text, or None where it is missing. Raises Refused: it is no text."""
        found = self._fields.get(name)
        if found is not None and not isinstance(found, str):
            raise Refused(400, f"{name} is no text")
        return found or None

    def mapping(self, name: str) -> dict[str, Any]:
        """An object; empty where it is missing. Raises Refused: it is none."""
        found = self._fields.get(name) or {}
        if not isinstance(found, dict):
            raise Refused(400, f"{name} is no object")
        return found

    def score(self, name: str) -> float | None:
        """A number, or None where it is missing. Raises Refused: it is none."""
        found = self._fields.get(name)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise Refused(400, f"{name} is no number")
        if not -_MOST < found < _MOST:
            raise Refused(400, f"{name} is between {-_MOST:g} and {_MOST:g}")
        return float(found)

    def any(self, name: str) -> Any:
        """Whatever it is. Raises Refused: it is missing."""
        found = self._fields.get(name, _MISSING)
        if found is _MISSING:
            raise Refused(400, f"{name} is missing")
        return found
