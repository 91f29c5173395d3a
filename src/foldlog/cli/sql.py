"""`foldlog sql`."""

from __future__ import annotations

import csv
import datetime as dt
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from foldlog.cli.command import command
from foldlog.cli.moments import At, seen
from foldlog.cli.options import Target
from foldlog.cli.output import console, moment, print_json_line, printable, table
from foldlog.jsonable import compact, jsonable

if TYPE_CHECKING:
    from rich.console import Console

    from foldlog.sql import SqlResult, Table

_NARROW: Final = 16
"""Characters that a column of a table has at least, or what is in it."""

_RIGHT = ("INT", "DOUBLE", "DECIMAL", "FLOAT", "HUGEINT")


@command
async def sql(
    target: Target,
    query: Annotated[
        str | None, typer.Argument(help="One that reads. Without: the tables and their columns.")
    ] = None,
    at: At = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds for all of it.")] = 30.0,
    max_rows: Annotated[int, typer.Option(min=0, help="How many rows at most.")] = 10_000,
) -> None:
    """Ask the log in SQL, archive included.

    The query can read the tables, and nothing else.
    """
    if csv and target.json:
        raise typer.BadParameter("--csv and --json: give one of them")
    async with target.connect() as store:
        if query is None:
            from foldlog.sql import tables

            _list(tables(store), as_json=target.json)
            return
        found = await seen(store, at).sql(query, timeout=timeout, max_rows=max_rows)
    if target.json:
        for row in found.dicts():
            print_json_line(row)
    elif csv:
        _print_csv(found)
    else:
        _print_table(found)


def _list(tables: list[Table], *, as_json: bool) -> None:
    if as_json:
        for each in tables:
            print_json_line(each._asdict())
        return
    shown = table("table", "a row is", "columns")
    for each in tables:
        shown.add_row(each.name, each.row, ", ".join(each.columns))
    console().print(shown)


def _print_table(found: SqlResult) -> None:
    out = console()
    rows = [[_cell(value) for value in row] for row in found.rows]
    columns = [printable(name) for name in found.columns]
    widths = [
        max(map(len, (name, *(row[place] for row in rows)))) for place, name in enumerate(columns)
    ]
    if sum(min(each, _NARROW) + 1 for each in widths) > out.width:
        _print_records(out, columns, rows)
        return
    shown = table(*(_mark(type_) + name for name, type_ in zip(columns, found.types, strict=True)))
    for row in rows:
        shown.add_row(*row)
    out.print(shown)


def _print_records(out: Console, columns: list[str], rows: list[list[str]]) -> None:
    """Rows one under another, a line a column: where a table does not fit the terminal."""
    width = max(map(len, columns))
    for number, row in enumerate(rows, 1):
        out.print(f"row {number}", style="bold")
        for name, value in zip(columns, row, strict=True):
            if value not in ("", "-"):
                out.print(f"    {name:<{width}}  {value}", soft_wrap=True)


def _mark(type_: str) -> str:
    return ">" if type_.endswith(_RIGHT) else "!" if type_.startswith("TIMESTAMP") else ""


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dt.datetime):
        return moment(value)
    plain = jsonable(value)
    return printable(plain if isinstance(plain, str) else compact(plain))


def _print_csv(found: SqlResult) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(found.columns)
    for row in found.rows:
        writer.writerow(_plain(value) for value in row)


def _plain(value: Any) -> Any:
    plain = jsonable(value)
    return compact(plain) if isinstance(plain, dict | list) else plain
