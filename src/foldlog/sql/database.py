"""DuckDB with tables of a log, as safe as its own settings make it: see `foldlog.sql.worker`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from foldlog import codec
from foldlog.errors import PayloadError
from foldlog.jsonable import count_values, jsonable
from foldlog.sql.frames import Answer, Ask, Column, Done, Failed, Forget, Page, Rows, Table, Wanted

_THREADS: Final = 4
_PAGE: Final = 500
_PAGE_BYTES: Final = 1024 * 1024
_VALUE: Final = 64
"""Bytes of a value in Python, beside its text."""
_NO_JSON: Final = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
_LATEST: Final = 253_402_300_799  # the year 9999, in Unix seconds
_json: Final = msgspec.json.Encoder()


class Refused(Exception):
    """A query that is not answered; `failed` says why."""

    def __init__(self, reason: str, message: str, about: str = "") -> None:
        super().__init__(message)
        self.failed: Failed = Failed(reason, message, about)


class Database:
    """DuckDB with the tables that a query may ask, all of them empty."""

    def __init__(self, ask: Ask) -> None:
        import duckdb

        self.errors: type[Exception] = duckdb.Error
        self._memory = duckdb.OutOfMemoryException
        self._ask = ask
        self._parameters = codec.decode(ask.parameters)
        self._tables = {each.name: each for each in ask.tables}
        self._connection = duckdb.connect(
            config={
                "threads": min(_THREADS, os.cpu_count() or 1),
                "memory_limit": f"{ask.max_bytes // 1_000_000}MB",
                "temp_directory": "",  # nothing of the log is spilled to a disk
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "python_enable_replacements": False,  # a table is no variable of this program
            }
        )
        self._connection.execute("set timezone = 'UTC'")
        self._connection.execute("set enable_external_access = false")
        for each in ask.tables:
            columns = ", ".join(f"{_quoted(e.name)} {e.type}" for e in each.columns)
            self._connection.execute(f"create table {_quoted(each.name)} ({columns})")
        self._connection.execute("set lock_configuration = true")

    def wanted(self) -> Wanted:
        """The tables that the query names.

        Raises:
            Refused: it is not one query that only reads, or cannot be answered.
        """
        statements = self._connection.extract_statements(self._ask.query)
        if len(statements) != 1:
            raise Refused("sql", f"one statement is needed, not {len(statements)}")
        kind = str(statements[0].type).rpartition(".")[2]
        if kind != "SELECT":
            hint = ": a PIVOT names its values, as in `on x in (1, 2)`" if kind == "MULTI" else ""
            raise Refused("sql", f"only queries are answered, not {kind}{hint}")
        named = self._named()
        self._connection.execute("begin transaction read only")
        self._plan()
        self._connection.execute("rollback")
        return Wanted(tuple(name for name in self._tables if name in named))

    def _named(self) -> set[str]:
        """The tables that the query names, and names that stand for something else in it.

        What a function finds by a text, as in `query('from tasks')`, is not among them: tables that
        are not named are dropped then, so that nobody takes them for empty.
        """
        query = [self._ask.query]
        found = self._connection.execute("select json_serialize_sql($1)", query).fetchall()
        tree = json.loads(found[0][0])
        if tree["error"]:
            raise Refused("sql", tree["error_message"])
        nodes = list(_nodes(tree))
        names = {e["table_name"].lower() for e in nodes if e.get("type") == "BASE_TABLE"}
        calls = [e["function"]["function_name"] for e in nodes if e.get("type") == "TABLE_FUNCTION"]
        if any(not name.startswith("duckdb_") for name in calls):
            for name in self._tables.keys() - names:
                self._connection.execute(f"drop table {_quoted(name)}")
        return names

    def _plan(self) -> None:
        """Find out on empty tables what cannot be answered, before anybody reads the log."""
        query, parameters = self._ask.query, self._parameters
        try:
            self._connection.execute(f"explain {query}", parameters)
        except self._memory:
            raise
        except self.errors:  # without the word before it, its message shows the query as it is
            self._connection.execute("rollback")
            self._connection.execute("begin transaction read only")
            self._connection.execute(query, parameters)

    def load(self, rows: Rows) -> None:
        """Add rows to a table."""
        table = self._tables[rows.table]
        records = [_record(table, row) for row in rows.rows]
        values = {f"c{n}": _values(c, rows.rows, records) for n, c in enumerate(table.columns)}
        shape = {f"c{n}": [_sent_as(c)] for n, c in enumerate(table.columns)}
        lists = ", ".join(f"unnest(d.{name}) as {name}" for name in values)
        made = ", ".join(_made(column, f"c{n}") for n, column in enumerate(table.columns))
        self._connection.execute(
            f"insert into {_quoted(table.name)} select {made} from "
            f"(select {lists} from (select from_json($1, '{json.dumps(shape)}') as d))",
            [_text(values)],
        )

    def forget(self, forget: Forget) -> None:
        """Remove the rows of a view."""
        columns = self._tables[forget.table].columns[: len(forget.keys)]
        where = " and ".join(f"{_quoted(each.name)} = ?" for each in columns)
        sql = f"delete from {_quoted(forget.table)} where {where}"
        self._connection.execute(sql, list(forget.keys))

    def answer(self) -> Iterator[Answer]:
        """Answer the query, which can change nothing.

        Raises:
            Refused: the answer is larger than it may be.
        """
        self._connection.execute("begin transaction read only")
        found = self._connection.execute(self._ask.query, self._parameters)
        count = size = 0
        columns = found.description or []
        types = tuple(str(each[1]) for each in columns)
        while rows := found.fetchmany(min(_PAGE, self._ask.max_rows + 1 - count)):
            count += len(rows)
            if count > self._ask.max_rows:
                raise Refused("rows", "")
            # Counted before they are encoded: what is encoded takes memory once more.
            cost = sum(
                _cost(type_, value) for row in rows for type_, value in zip(types, row, strict=True)
            )
            size += cost
            if size > self._ask.max_bytes:
                raise Refused("memory", "the answer")
            yield from _pages(rows, cost)
        yield Done(tuple(each[0] for each in columns), types)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """The nodes of a query's tree."""
    if isinstance(tree, dict):
        yield tree
    for each in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(each, dict | list):
            yield from _nodes(each)


# --- rows ----------------------------------------------------------------------------------------


def _record(table: Table, row: Sequence[Any]) -> dict[str, Any]:
    found = codec.decode(row[-1])
    if isinstance(found, list):
        return dict(zip(table.fields[row[-3]], found, strict=False))
    return found if isinstance(found, dict) else {}


def _values(
    column: Column, rows: Sequence[Sequence[Any]], records: Sequence[dict[str, Any]]
) -> list[Any]:
    source, default = column.source, column.default
    if isinstance(source, int):
        found = [row[source] for row in rows]
    else:
        found = [record.get(source, default) for record in records]
    return list(map(_micros, found)) if column.form == "seconds" else found


def _micros(seconds: Any) -> int | None:
    """A time for SQL; None for a number that is none."""
    if not isinstance(seconds, int | float) or not -_LATEST < seconds < _LATEST:
        return None
    return round(seconds * 1_000_000)


def _text(values: dict[str, list[Any]]) -> str:
    try:
        return _json.encode(values).decode()
    except _NO_JSON:
        return json.dumps({name: list(map(_plain, column)) for name, column in values.items()})


def _plain(value: Any) -> Any:
    """A value as JSON has it; one that msgspec has no form for as the command line shows it."""
    try:
        return json.loads(_json.encode(value))
    except _NO_JSON:
        return jsonable(value)


def _sent_as(column: Column) -> str:
    """The type as which values come in JSON."""
    if column.form == "seconds":
        return "BIGINT"
    return "VARCHAR" if column.form == "text" or column.type == "BLOB" else column.type


def _made(column: Column, name: str) -> str:
    """The value of a column from what came in JSON."""
    if column.form == "seconds":
        return f"make_timestamptz({name})"
    if column.form == "text":
        return f"try_cast({name} as timestamptz)"
    return f"from_base64({name})" if column.type == "BLOB" else name


def _pages(rows: list[Any], cost: int) -> Iterator[Page]:
    """Rows in pages that whoever asks decodes quickly."""
    some = max(len(rows) * _PAGE_BYTES // max(cost, 1), 1)
    for start in range(0, len(rows), some):
        page = rows[start : start + some]
        yield Page(_encoded(page), cost * len(page) // len(rows))


def _cost(type_: str, value: Any) -> int:
    """Return about how many bytes a value takes in the program that asks."""
    if isinstance(value, str):
        if type_ != "JSON":
            return _VALUE + len(value)
        return len(value) + _VALUE * count_values(value.encode(errors="surrogatepass"))
    if isinstance(value, bytes):
        return _VALUE + len(value)
    if isinstance(value, dict):
        return _VALUE + sum(_VALUE + _cost("", each) for each in value.values())
    if isinstance(value, list | tuple):
        return _VALUE + sum(_cost("", each) for each in value)
    return _VALUE


def _encoded(rows: list[Any]) -> bytes:
    plain = [list(row) for row in rows]
    try:
        return codec.encode(plain)
    except PayloadError:
        return codec.encode(jsonable(plain))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
