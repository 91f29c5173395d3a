"""DuckDB with tables of a log, as safe as its own settings make it: see `foldlog.sql.worker`."""

from __future__ import annotations

import io
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from typing import Any, Final

import duckdb
import msgspec
import pyarrow as pa

from foldlog import codec
from foldlog.jsonable import count_values
from foldlog.sql.messages import (
    LOCKED,
    POSITION,
    SETTINGS,
    Answer,
    Ask,
    Data,
    Done,
    Failed,
    Start,
    Wanted,
    quoted,
    text,
)

_THREADS: Final = 4
_PAGE: Final = 500
_VALUE: Final = 64
"""Bytes of a value in Python, beside its text."""

_AS_TEXT: Final = frozenset({"UHUGEINT", "BIT", "BIGNUM", "TIME WITH TIME ZONE"})
"""Types that Arrow has no values for."""


class Refused(Exception):
    """A query that is not answered; `failed` says why."""

    def __init__(self, reason: str, message: str, about: str = "") -> None:
        super().__init__(message)
        self.failed: Failed = Failed(reason, message, about)


class Database:
    """DuckDB with the tables that a query may ask: empty ones, until they are shown of the file."""

    def __init__(self, start: Start) -> None:
        self._max_bytes = start.max_bytes
        self._directory = start.directory
        self._tables = start.tables
        self._gone: set[str] = set()
        self._attached: list[str] = []
        self._connection = duckdb.connect(
            config={
                "threads": min(_THREADS, os.cpu_count() or 1),
                "memory_limit": f"{start.max_bytes // 1_000_000}MB",
                **SETTINGS,
            }
        )
        self._connection.execute("set timezone = 'UTC'")
        self._connection.execute(f"set allowed_directories = [{text(start.directory)}]")
        self._connection.execute("set enable_external_access = false")
        for each in start.tables:
            self._make(each)
        self._connection.execute("set lock_configuration = true")

    def _make(self, name: str) -> None:
        columns = ", ".join(f"{quoted(each)} {type_}" for each, type_ in self._tables[name].items())
        self._connection.execute(f"create table {quoted(name)} ({columns})")

    def wanted(self, ask: Ask) -> tuple[str, ...]:
        """Plan a query on empty tables, and return the names of those that it names.

        Raises:
            Refused: it is not one query that only reads. duckdb.Error: it cannot be answered.
        """
        statements = self._connection.extract_statements(ask.query)
        if len(statements) != 1:
            raise Refused("sql", f"one statement is needed, not {len(statements)}")
        kind = str(statements[0].type).rpartition(".")[2]
        if kind != "SELECT":
            hint = ": a PIVOT names its values, as in `on x in (1, 2)`" if kind == "MULTI" else ""
            raise Refused("sql", f"only queries are answered, not {kind}{hint}")
        named = self._named(ask.query)
        self._connection.execute("begin transaction read only")
        try:
            self._relation(ask)
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error:  # its message does not show the place; that of a statement does
            self._connection.execute("rollback")
            self._connection.execute("begin transaction read only")
            self._connection.execute(ask.query, codec.decode(ask.parameters))
        self._connection.execute("rollback")
        return tuple(name for name in self._tables if name in named)

    def _named(self, query: str) -> set[str]:
        """The tables that the query names, and names that stand for something else in it.

        What a function finds by a text, as in `query('from tasks')`, is not among them: tables that
        are not named are dropped then, so that nobody takes them for empty.
        """
        found = self._connection.execute("select json_serialize_sql($1)", [query]).fetchall()
        tree = json.loads(found[0][0])
        if tree["error"]:
            raise Refused("sql", tree["error_message"])
        nodes = list(_nodes(tree))
        names = {e["table_name"].lower() for e in nodes if e.get("type") == "BASE_TABLE"}
        calls = [e["function"]["function_name"] for e in nodes if e.get("type") == "TABLE_FUNCTION"]
        if any(not name.startswith("duckdb_") for name in calls):
            self._drop(self._tables.keys() - names)
        return names

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            self._connection.execute(f"drop table {quoted(name)}")
            self._gone.add(name)

    def _relation(self, ask: Ask) -> Any:
        parameters = codec.decode(ask.parameters)
        sql = self._connection.sql
        return sql(ask.query, params=parameters) if parameters else sql(ask.query)

    def show(self, names: tuple[str, ...], until: str) -> Wanted | None:
        """Have names stand for tables in files; None if all of these stand at a position.

        Raises:
            Refused: a file cannot be read.
        """
        wanted = []
        for name in names:
            alias = f"f{secrets.token_hex(8)}"  # which no query can know
            path = os.path.join(self._directory, f"{name}.duckdb")
            if not os.path.exists(path):
                wanted.append(name)
                continue
            try:
                self._connection.execute(f"attach {text(path)} as {alias} (read_only)")
                self._attached.append(alias)
                at = self._connection.execute(f"select position from {alias}.{POSITION}").fetchone()
            except duckdb.Error as error:
                self._detach()
                if LOCKED in str(error):
                    return Wanted((name,), is_busy=True)
                raise Refused("file", str(error)) from error
            if at != (until,):
                wanted.append(name)
        if wanted:
            self._detach()
            return Wanted(tuple(wanted), is_busy=False)
        self._drop(names)
        for name, alias in zip(names, self._attached, strict=True):
            columns = ", ".join(map(quoted, self._tables[name]))
            query = f"select {columns} from {alias}.{quoted(name)}"
            self._connection.execute(f"create view {quoted(name)} as {query}")
        return None

    def _detach(self) -> None:
        for each in self._attached:
            self._connection.execute(f"detach {each}")
        self._attached.clear()

    def end(self) -> None:
        """Have all tables be empty again, and let go of the file."""
        try:
            self._connection.execute("rollback")
        except duckdb.TransactionException:
            pass  # there was none
        for name in self._gone:
            self._connection.execute(f"drop view if exists {quoted(name)}")
            self._make(name)
        self._gone.clear()
        self._detach()

    def answer(self, ask: Ask) -> Iterator[Answer]:
        """Answer the query, which can change nothing.

        Raises:
            Refused: the answer is larger than it may be. duckdb.Error: it cannot be answered.
        """
        self._connection.execute("begin transaction read only")
        relation = self._relation(ask)
        columns, types = tuple(relation.columns), tuple(map(str, relation.types))
        if not _AS_TEXT.isdisjoint(types):
            some = (f"#{n}{'::varchar' * (t in _AS_TEXT)}" for n, t in enumerate(types, 1))
            relation = relation.project(", ".join(some))
        count = size = 0
        sent = io.BytesIO()
        with (
            relation.to_arrow_reader(min(_PAGE, ask.max_rows + 1)) as reader,
            pa.ipc.new_stream(sent, reader.schema) as stream,
        ):
            for each in reader:
                count += each.num_rows
                if count > ask.max_rows:
                    raise Refused("rows", "")
                # Counted as values, which take more memory than Arrow does.
                size += sum(map(_cost, columns, types, each.columns))
                if size > self._max_bytes:
                    raise Refused("memory", "the answer")
                stream.write_batch(each)
                yield Data(sent.getvalue())
                sent.seek(0)
                sent.truncate()
        yield Data(sent.getvalue())
        yield Done(columns, types)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """The nodes of a query's tree."""
    if isinstance(tree, dict):
        yield tree
    for each in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(each, dict | list):
            yield from _nodes(each)


def _cost(name: str, type_: str, column: pa.Array) -> int:
    """Return about how many bytes values take in the program that asks. Raises Refused."""
    size: int = column.nbytes + _VALUE * _values(column)
    if type_ == "JSON":
        for each in column.cast(pa.binary()).to_pylist():
            if each is not None:
                size += _VALUE * count_values(each)
                try:
                    msgspec.json.decode(each)
                except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
                    reason = f"has JSON that cannot be read ({error}): cast it to VARCHAR"
                    raise Refused("sql", f"column {name!r:.80} {reason}") from error
    return size


def _values(column: pa.Array) -> int:
    """How many values there are, those inside of others included."""
    count = len(column)
    if isinstance(column, pa.StructArray):
        count += sum(map(_values, column.flatten()))
    elif isinstance(column, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray | pa.MapArray):
        count += _values(column.values)
    return count
