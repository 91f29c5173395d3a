"""Moments on the command line: a position, a time, or an event's id."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from foldlog.opening import Store
    from foldlog.position import LogPosition

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d([T ]|$)")

MOMENT_HELP: Final = (
    "a position as @1234, a time as 2026-01-31T14:02:00Z (UTC unless it says otherwise), "
    "or the id of an update or steering event"
)
At = Annotated[
    str | None, typer.Option(metavar="MOMENT", help=f"As it was at a moment: {MOMENT_HELP}.")
]


def seen(store: Store, at: str | None) -> Store:
    """Return the store as of `at`, or as it is. Errors as `moment`."""
    return store if at is None else store.at(moment(at))


def moment(text: str) -> LogPosition | dt.datetime | str:
    """Return what `Store.at` takes.

    Raises:
        UnknownMoment: it begins like a position, and is none.
        BadParameter: it begins like a time, and is none.
    """
    from foldlog.position import LogPosition

    if text.startswith("@"):
        return LogPosition.parse(text)
    return time(text) if _DATE.match(text) else text


def is_moment(text: str) -> bool:
    """Whether a text can only be a moment, and no session's id: a position or a time."""
    return text.startswith("@") or _DATE.match(text) is not None


def time(text: str) -> dt.datetime:
    """Return a time; without an offset it is UTC.

    Raises:
        BadParameter: it is none.
    """
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time, as 2026-01-31T14:02:00Z is") from None
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)
