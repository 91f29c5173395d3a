"""LangGraph's checkpointers: foldlog's, and LangGraph's own on SQLite and on PostgreSQL."""

from __future__ import annotations

from contextlib import AsyncExitStack
from importlib import import_module
from typing import Any, ClassVar, Final, Protocol

import foldlog
from benchmarks.contenders.contender import Contender
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.site import Site
from benchmarks.unavailable import Unavailable

_DATABASE: Final = "langgraph"
_CONNECTIONS: Final = 20


class KeepsThreads(Contender, Protocol):
    """Has a saver, which is asked as LangGraph asks it."""

    saver: Any

    async def reopen(self) -> None:
        """Go on as a process that holds nothing."""
        ...

    async def stored(self) -> int:
        """Bytes that everything takes where it is stored."""
        ...


class FoldlogThreads(Foldlog):
    """`FoldlogSaver` on the embedded server."""

    saver: Any

    async def open(self) -> None:
        """Connect to a server of its own."""
        await super().open()
        self._make()

    async def reopen(self) -> None:
        """Go on with another store. As with PostgreSQL, the server stays up meanwhile."""
        before, self.store = self.store, await self.another()
        await before.close()
        self._make()

    async def stored(self) -> int:
        """Bytes of the log."""
        return sum(stream.bytes for stream in (await self.store.health()).streams)

    def _make(self) -> None:
        try:
            adapter = import_module("foldlog.integrations.langgraph")
            self.saver = adapter.FoldlogSaver(self.store)
        except (ImportError, foldlog.ConfigurationError) as error:
            raise Unavailable("langgraph is not installed") from error


class SqliteThreads:
    """LangGraph's saver on a SQLite file, with the write-ahead log that it asks for."""

    name: ClassVar[str] = "LangGraph SQLite"
    promise: ClassVar[str] = "fsynced write-ahead log (journal_mode=WAL, synchronous=FULL)"

    def __init__(self, site: Site) -> None:
        self._path = site.directory("threads") / "checkpoints.db"
        self._stack = AsyncExitStack()
        self.saver: Any

    async def open(self) -> None:
        """Make the file and the tables."""
        await self.reopen()

    async def facts(self) -> dict[str, str]:
        """The pragmas of its connection; a `synchronous` of 2 is FULL."""
        found = {}
        for pragma in ("journal_mode", "synchronous"):
            async with self.saver.conn.execute(f"PRAGMA {pragma}") as rows:
                found[pragma] = str((await rows.fetchone())[0])
        return found

    async def reopen(self) -> None:
        """Close the file and open it again; the system's cache stays."""
        try:
            sqlite = import_module("langgraph.checkpoint.sqlite.aio")
        except ImportError as error:
            raise Unavailable("langgraph-checkpoint-sqlite is not installed") from error
        await self._stack.aclose()
        opening = sqlite.AsyncSqliteSaver.from_conn_string(str(self._path))
        self.saver = await self._stack.enter_async_context(opening)
        await self.saver.setup()
        await self.saver.conn.execute("PRAGMA synchronous=FULL")

    async def stored(self) -> int:
        """Bytes of the file, with all that its log holds."""
        async with self.saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)") as rows:
            await rows.fetchall()
        return self._path.stat().st_size

    async def close(self) -> None:
        """Close the file."""
        await self._stack.aclose()


class PostgresThreads:
    """LangGraph's saver on PostgreSQL, with a pool of connections."""

    name: ClassVar[str] = "LangGraph PostgreSQL"
    promise: ClassVar[str] = "fsynced write-ahead log (synchronous_commit=on)"

    def __init__(self, site: Site) -> None:
        self._site = site
        self._stack = AsyncExitStack()
        self._dsn = ""
        self.saver: Any

    async def open(self) -> None:
        """Make a database and the tables."""
        dsn = await self._site.postgres()
        try:
            psycopg = import_module("psycopg")
        except ImportError as error:
            raise Unavailable("psycopg is not installed") from error
        name = f"{_DATABASE}_{id(self)}"
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            await connection.execute(f"CREATE DATABASE {name}")
        self._dsn = psycopg.conninfo.make_conninfo(dsn, dbname=name)
        await self.reopen()
        await self.saver.setup()

    async def facts(self) -> dict[str, str]:
        """What the server says of itself."""
        found = {}
        for setting in ("server_version", "fsync", "synchronous_commit"):
            [row] = await self._rows(f"SHOW {setting}")
            found[setting] = str(row[setting])
        return {**found, "connections": str(_CONNECTIONS)}

    async def reopen(self) -> None:
        """Close the connections and open others."""
        try:
            aio = import_module("langgraph.checkpoint.postgres.aio")
            pool = import_module("psycopg_pool").AsyncConnectionPool
            rows = import_module("psycopg.rows").dict_row
        except ImportError as error:
            raise Unavailable("langgraph-checkpoint-postgres is not installed") from error
        await self._stack.aclose()
        settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": rows}
        opening = pool(
            self._dsn, min_size=_CONNECTIONS, max_size=_CONNECTIONS, kwargs=settings, open=False
        )
        self.saver = aio.AsyncPostgresSaver(await self._stack.enter_async_context(opening))

    async def stored(self) -> int:
        """Bytes of the tables and their indexes."""
        [row] = await self._rows(
            "SELECT sum(pg_total_relation_size(oid))::bigint AS bytes FROM pg_class "
            "WHERE relname IN ('checkpoints', 'checkpoint_blobs', 'checkpoint_writes')"
        )
        return int(row["bytes"])

    async def close(self) -> None:
        """Close the connections."""
        await self._stack.aclose()

    async def _rows(self, statement: str) -> list[Any]:
        async with self.saver.conn.connection() as connection:
            found: list[Any] = await (await connection.execute(statement)).fetchall()
            return found
