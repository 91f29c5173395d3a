"""The user's database: SQLite, PostgreSQL or DuckDB, by its driver, on a thread of its own."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import operator
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

from foldlog.errors import ConfigurationError, Misuse
from foldlog.projectors.declared import (
    VIEW,
    Changes,
    Column,
    Form,
    Projector,
    TableOfRows,
    listed,
    quoted,
)
from foldlog.store.subscribing import LogItem

T = TypeVar("T")

Connect = Callable[[], Any]
"""Returns a new connection of a DB-API driver: sqlite3, psycopg or duckdb."""


@runtime_checkable
class Pool(Protocol):
    """A pool of connections, as `psycopg_pool.ConnectionPool` is one."""

    def getconn(self) -> Any:
        """Return a connection that is then this caller's."""

    def putconn(self, conn: Any) -> None:
        """Take it back, also where it is broken."""


_TABLES: Final = (
    "create table if not exists foldlog_projectors (name varchar(200), version integer, "
    "position text not null, is_shown integer not null, primary key (name, version))",
    "create table if not exists foldlog_parked (name text, version integer, position text, "
    "kind text, keys text, id text, error text)",
)


class Dialect(NamedTuple):
    """What differs between databases."""

    mark: str
    types: dict[Form, str]
    begin: str
    lock: str


_TYPES: Final[dict[Form, str]] = {
    "text": "text",
    "integer": "bigint",
    "real": "double precision",
    "boolean": "boolean",
    "time": "timestamptz",
    "date": "date",
    "bytes": "bytea",
    "json": "jsonb",
}
_SQLITE: Final = Dialect(
    "?",
    {**_TYPES, "real": "real", "bytes": "blob", "json": "text", "time": "text", "date": "text"},
    "begin immediate",
    "",
)
_POSTGRES: Final = Dialect("%s", _TYPES, "begin", " for update")
_TOGETHER: Final = 100
"""Rows that SQLite is given in a statement: for each one the thread waits for the event loop's."""
_FILES: Final = threading.Lock()
"""Held while a file of DuckDB is opened or closed. Its lock is the process's: where two threads do
that at once, the one that closes may end the other's lock, and another process may write, too."""
_DUCKDB: Final = Dialect("?", {**_TYPES, "bytes": "blob", "json": "json"}, "begin transaction", "")


class Held(NamedTuple):
    """How far a projector has come: "" before its first record; and whether it is shown."""

    position: str
    is_shown: bool


class Database:
    """One connection to a database. It lives until `close`, and connects again when it must.

    Args:
        to: `sqlite:///path`, `duckdb:///path`, `postgresql://...`; a pool of psycopg; or a
            function that returns a connection.

    Raises:
        ConfigurationError: `to` is nothing of these, or the driver is not installed.
    """

    def __init__(self, to: str | Connect | Pool) -> None:
        self._connect: Connect
        self._let_go: Callable[[Any], object] = operator.methodcaller("close")
        if isinstance(to, str):
            self._connect = _connecting(to)
        elif isinstance(to, Pool):
            self._connect, self._let_go = to.getconn, to.putconn
        else:
            self._connect = to
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="foldlog projector")
        self._connection: Any = None
        self._dialect = _SQLITE
        self._was_autocommit = False

    async def close(self) -> None:
        """Close the connection, if there is one."""
        await self.do(self._disconnect)
        self._thread.shutdown(wait=False)

    async def do(self, work: Callable[[], T]) -> T:
        """Do something on the connection's thread; to its end, also where this is cancelled."""
        doing = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            await asyncio.wait([doing])
            doing.exception()  # that it was cancelled is what its caller is to know
            raise

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Execute a statement; on the thread only. `?` stands for the driver's placeholder."""
        cursor = self.cursor()
        cursor.execute(sql.replace("?", self._dialect.mark), parameters)
        return cursor

    def cursor(self) -> Any:
        """A cursor of the connection; on the thread only. A cursor of DuckDB is another one."""
        connection = self._connected()
        return connection if self._dialect is _DUCKDB else connection.cursor()

    def _connected(self) -> Any:
        if self._connection is None:
            connection = self._connect()
            module = type(connection).__module__.partition(".")[0].lstrip("_")
            found = {"sqlite3": _SQLITE, "psycopg": _POSTGRES, "duckdb": _DUCKDB}.get(module)
            if found is None:
                raise ConfigurationError(
                    f"connections are of sqlite3, psycopg or duckdb, not of {module}"
                )
            self._dialect = found
            if found is _POSTGRES:
                self._was_autocommit = connection.autocommit
                connection.autocommit = True  # each transaction begins by its own statement
            elif found is _SQLITE:
                connection.isolation_level = None
            self._connection = connection
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                if self._dialect is _POSTGRES and not connection.closed:
                    connection.autocommit = self._was_autocommit  # a pool gives it to others
            finally:
                with _FILES if self._dialect is _DUCKDB else nullcontext():
                    self._let_go(connection)

    def is_there(self) -> bool:
        """Whether the database answers; on the thread only. Otherwise it connects again later."""
        try:
            self.execute("select 1").fetchall()
        except Exception:  # noqa: BLE001 - each driver has its own errors
            with suppress(Exception):  # it is gone either way
                self._disconnect()
            return False
        return True

    # --- projectors -------------------------------------------------------------------------------

    def make(self, projector: Projector) -> None:
        """Make the tables of a projector where there are none; in a transaction."""
        if self._dialect is _POSTGRES:  # where two that make one table at once are refused
            self.execute("select pg_advisory_xact_lock(hashtext('foldlog_projectors'))")
        for sql in (*_TABLES, *projector.made_by(self._dialect.types)):
            self.execute(sql)
        self.execute(
            "insert into foldlog_projectors values (?, ?, '', 0) on conflict do nothing",
            (projector.name, projector.version),
        )

    def begin(self) -> None:
        """Begin a transaction; on the thread only."""
        self._connected()
        self.execute(self._dialect.begin)

    def held(self, projector: Projector) -> Held:
        """How far it has come, locked until the transaction ends; on the thread only."""
        sql = (
            "select position, is_shown from foldlog_projectors "
            f"where name = ? and version = ?{self._dialect.lock}"
        )
        [row] = self.execute(sql, (projector.name, projector.version)).fetchall()
        return Held(row[0], bool(row[1]))

    def hold(self, projector: Projector, position: str) -> None:
        """Note how far it has come; on the thread only."""
        self.execute(
            "update foldlog_projectors set position = ? where name = ? and version = ?",
            (position, projector.name, projector.version),
        )

    def show(self, projector: Projector) -> None:
        """Have the names of its tables stand for this version; on the thread only."""
        for name, query in projector.shown_by(self._dialect.types).items():
            self.execute(f"drop view if exists {quoted(name)}")
            self.execute(f"create view {quoted(name)} as {query}")
        self.execute(
            "update foldlog_projectors set is_shown = case when version = ? then 1 else 0 end "
            "where name = ?",
            (projector.version, projector.name),
        )

    def park(self, projector: Projector, item: LogItem, error: str) -> None:
        """Note a record that is left out by decision; on the thread only."""
        about = (projector.name, projector.version, str(item.position), item.kind)
        self.execute(
            "insert into foldlog_parked values (?, ?, ?, ?, ?, ?, ?)",
            (*about, json.dumps(item.keys), item.id, error),
        )

    def change(self, projector: TableOfRows, changes: Changes) -> None:
        """Write what a batch changes in a table of rows; on the thread only."""
        own = quoted(projector.own(projector.name))
        for view in changes.views:
            self.execute(f"delete from {own} where {VIEW} = ?", (view,))
        key = projector.key[: len(next(iter(changes.keys), ()))]
        where = " and ".join(f"{quoted(each)} = ?" for each in key)
        for values in changes.keys:
            self.execute(f"delete from {own} where {where}", values)
        if changes.rows:
            self._write(projector, own, list(changes.rows.values()))

    def _write(self, projector: TableOfRows, own: str, rows: list[list[Any]]) -> None:
        columns = projector.columns
        updates = [
            f"{quoted(e.name)} = {f'{own}.{quoted(e.name)} + ' if e.name in projector.add else ''}"
            f"excluded.{quoted(e.name)}"
            for e in columns
            if e.name not in projector.key
        ]
        then = f"do update set {', '.join(updates)}" if updates else "do nothing"
        values = [
            self._values(column, [row[n] for row in rows]) for n, column in enumerate(columns)
        ]
        head = f"insert into {own} ({listed(e.name for e in columns)})"
        tail = f"on conflict ({listed(projector.key)}) {then}" if projector.key else ""
        if self._dialect is _SQLITE:
            marks = f"({', '.join('?' for _ in columns)})"
            given = [*zip(*values, strict=True)]
            for some in (given[n : n + _TOGETHER] for n in range(0, len(given), _TOGETHER)):
                sql = f"{head} values {', '.join([marks] * len(some))} {tail}"
                self.execute(sql, [*chain.from_iterable(some)])
        elif self._dialect is _DUCKDB:
            import pyarrow

            rows = pyarrow.table(values, [each.name for each in columns])
            self._connected().register("foldlog_rows", rows)
            self.execute(f"{head} select * from foldlog_rows {tail}")
            self._connected().unregister("foldlog_rows")
        else:
            types = self._dialect.types
            lists = ", ".join(f"unnest(?::{types[each.form]}[])" for each in columns)
            self.execute(f"{head} select {lists} {tail}", values)

    def _values(self, column: Column, values: list[Any]) -> list[Any]:
        if column.form == "json":
            return [None if each is None else json.dumps(each) for each in values]
        if self._dialect is _SQLITE and column.form in ("time", "date"):
            return [each.isoformat() if isinstance(each, dt.date) else each for each in values]
        return values


class InTransaction:
    """The `Transaction` of a handler: statements gather, and are executed together."""

    def __init__(self, database: Database, projector: Projector) -> None:
        self._database = database
        self._names = {name: quoted(projector.own(name)) for name in projector.tables}
        self._waiting: list[tuple[str, list[tuple[Any, ...]]]] = []
        self._changes: list[tuple[TableOfRows, Changes]] = []

    def execute(self, sql: str, *parameters: Any) -> None:
        """See `Transaction.execute`."""
        if self._waiting and self._waiting[-1][0] == sql:
            self._waiting[-1][1].append(parameters)
        else:
            self._waiting.append((sql, [parameters]))

    def change(self, table: TableOfRows, changes: Changes) -> None:
        """See `Writing.change`."""
        self._changes.append((table, changes))

    async def fetch(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """See `Transaction.fetch`."""

        def fetch() -> list[tuple[Any, ...]]:
            self.flush()
            cursor = self._database.cursor()
            cursor.execute(self._named(sql), parameters)
            return [tuple(each) for each in cursor.fetchall()]

        return await self._database.do(fetch)

    def flush(self) -> None:
        """Execute what waits; on the thread only."""
        waiting, self._waiting = self._waiting, []
        cursor = self._database.cursor()
        for sql, parameters in waiting:
            if len(parameters) == 1:
                cursor.execute(self._named(sql), parameters[0])
            else:
                cursor.executemany(self._named(sql), parameters)
        changes, self._changes = self._changes, []
        for each in changes:
            self._database.change(*each)

    def _named(self, sql: str) -> str:
        for name, own in self._names.items():
            sql = sql.replace("{" + name + "}", own)
        return sql


def _connecting(to: str) -> Connect:
    scheme, _, rest = to.partition("://")
    if scheme in ("postgresql", "postgres"):
        try:
            import psycopg
        except ImportError as error:
            raise ConfigurationError(
                f"psycopg: {error}: pip install 'foldlog[postgres]' 'psycopg[binary]'"
            ) from error
        return lambda: psycopg.connect(to)
    path = rest.removeprefix("/")
    if scheme == "duckdb" and path:
        try:
            import duckdb
        except ImportError as error:
            raise ConfigurationError("DuckDB is in pip install 'foldlog[archive]'") from error

        def connect() -> Any:
            with _FILES:
                return duckdb.connect(path)

        return connect
    if scheme == "sqlite" and path:
        return lambda: _sqlite(path)
    raise Misuse(
        f"{to!r:.80} is no database: sqlite:///file.db, duckdb:///file.db, or postgresql://..."
    )


def _sqlite(path: str) -> Any:
    import sqlite3

    connection = sqlite3.connect(path, timeout=30.0, check_same_thread=False)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = normal")  # what is lost, is lost with its position
    return connection
