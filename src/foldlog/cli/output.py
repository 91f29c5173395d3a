"""What is printed: JSON for programs, lines and tables for people."""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from foldlog.jsonable import jsonable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_PIPE_WIDTH: Final = 120
"""Columns of what is not a terminal and does not say: a log file, a pager, a CI job."""


def print_json(document: object) -> None:
    """Print one JSON document, indented."""
    print(_json(document, indent=2))  # noqa: T201 - standard output is the product


def print_json_line(record: object) -> None:
    """Print one line of JSON, at once: a reader of the stream waits for it."""
    print(_json(record), flush=True)  # noqa: T201 - standard output is the product


def print_names(names: Iterable[str]) -> None:
    """Print names, one a line, for people and for shell loops."""
    for name in names:
        print(printable(name))  # noqa: T201 - standard output is the product


def print_nothing(words: str) -> None:
    """Say that there is nothing to print, where a program that reads the output does not see it."""
    print(words, file=sys.stderr)  # noqa: T201 - the command's own message


def _json(value: object, indent: int | None = None) -> str:
    readable = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return json.dumps(jsonable(value), ensure_ascii=not readable, indent=indent)


def printable(text: str) -> str:
    """`text` on one line, with what a terminal would obey or hide shown as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def moment(time: dt.datetime | float | None) -> str:
    """A time or Unix time in UTC, to the millisecond; a number that is no date, as it is."""
    if time is None:
        return "-"
    if not isinstance(time, dt.datetime):
        try:
            time = dt.datetime.fromtimestamp(time, dt.UTC)
        except (OverflowError, OSError, ValueError):
            return f"{time:g}"
    utc = time.astimezone(dt.UTC) if time.tzinfo else time
    return utc.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")


def console(*, stderr: bool = False) -> Console:
    """Where people read. Text is taken as it is: no markup, no emoji codes, no guessed colours.

    As wide as the terminal, or as $COLUMNS says.
    """
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            raise

    made = Quiet(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = _PIPE_WIDTH
    return made


def beside(margin: Text, text: Text) -> Table:
    """A text whose lines stand beside a margin, however often it is wrapped."""
    from rich.table import Table

    made = Table.grid()
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    made.add_row(margin, text)
    return made


def table(*columns: str) -> Table:
    """A table with these headings.

    A column whose heading begins with ">" is flush right, and one with "!" is never wrapped.
    """
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in columns:
        made.add_column(
            heading.lstrip(">!"),
            justify="right" if heading.startswith(">") else "left",
            no_wrap=heading.startswith("!"),
            overflow="fold",
        )
    return made
