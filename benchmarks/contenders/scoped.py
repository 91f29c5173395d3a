"""Keys in a scope: foldlog's, SQLite's FTS5 used directly, and LangGraph's store on SQLite."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Any, ClassVar, Final, ParamSpec, Protocol, TypeVar

from benchmarks.contenders.contender import Contender
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.site import Site
from benchmarks.unavailable import Unavailable
from foldlog.scoped import Scope

P = ParamSpec("P")
T = TypeVar("T")

SCOPE: Final = Scope.session("s1")
AT_ONCE: Final = 900
"""Keys that are written in one call."""


class KeepsKeys(Contender, Protocol):
    """Keeps values by key, in one scope."""

    async def write(self, key: str, value: Any) -> object: ...

    async def write_many(self, values: Mapping[str, Any]) -> object: ...

    async def read(self, key: str) -> Any: ...

    async def list_keys(self, prefix: str) -> Sequence[Any]: ...

    async def reopen(self) -> None:
        """Go on as a process that holds nothing."""
        ...


class FindsText(KeepsKeys, Protocol):
    """And finds values by their words."""

    async def search(self, query: str, limit: int) -> Sequence[Any]: ...


class ScopedFoldlog(Foldlog):
    """`store.scoped` on the embedded server."""

    async def write(self, key: str, value: Any) -> None:
        """One write."""
        await self.store.scoped.write(SCOPE, key, value)

    async def write_many(self, values: Mapping[str, Any]) -> None:
        """One append."""
        await self.store.scoped.write_many(SCOPE, values)

    async def read(self, key: str) -> Any:
        """One read."""
        return await self.store.scoped.read(SCOPE, key)

    async def list_keys(self, prefix: str) -> Sequence[str]:
        """One list."""
        return await self.store.scoped.list(SCOPE, prefix)

    async def search(self, query: str, limit: int) -> Sequence[Any]:
        """By text, with scores and snippets."""
        return await self.store.scoped.search(SCOPE, query, limit)


_TABLES: Final = """
CREATE TABLE entries (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, value TEXT NOT NULL);
CREATE VIRTUAL TABLE texts USING fts5(
    key, body, tokenize = 'porter unicode61 remove_diacritics 2'
);
"""
_UPSERT: Final = """
INSERT INTO entries (key, value) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value RETURNING id
"""
_LIST: Final = "SELECT key FROM entries WHERE key >= ? AND key < ? ORDER BY key"
_SEARCH: Final = """
SELECT key, -bm25(texts, 2.0, 1.0), snippet(texts, 1, '', '', '…', 16) FROM texts
WHERE texts MATCH ? ORDER BY rank LIMIT ?
"""


class Fts5:
    """A table and an FTS5 index that is kept in the same transaction, on a thread of their own."""

    name: ClassVar[str] = "SQLite FTS5"
    promise: ClassVar[str] = "fsynced write-ahead log (journal_mode=WAL, synchronous=FULL)"

    def __init__(self, site: Site) -> None:
        self._path = site.directory("fts5") / "state.db"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fts5")
        self._database: sqlite3.Connection

    async def open(self) -> None:
        """Make the file and the tables."""
        await self._do(self._connect)
        await self._do(self._database.executescript, _TABLES)

    async def facts(self) -> dict[str, str]:
        """The library."""
        return {"sqlite": sqlite3.sqlite_version}

    async def reopen(self) -> None:
        """Close the file and open it again; the system's cache stays."""
        await self._do(self._database.close)
        await self._do(self._connect)

    async def close(self) -> None:
        """Close the file and end the thread."""
        await self._do(self._database.close)
        self._thread.shutdown()

    async def write(self, key: str, value: Any) -> None:
        """One transaction."""
        await self.write_many({key: value})

    async def write_many(self, values: Mapping[str, Any]) -> None:
        """One transaction."""
        await self._do(self._put, values)

    async def read(self, key: str) -> Any:
        """One SELECT by key."""
        [(text,)] = await self._do(self._rows, "SELECT value FROM entries WHERE key = ?", (key,))
        return json.loads(text)

    async def list_keys(self, prefix: str) -> Sequence[Any]:
        """One SELECT of a range."""
        return await self._do(self._rows, _LIST, (prefix, prefix + "\U0010ffff"))

    async def search(self, query: str, limit: int) -> Sequence[Any]:
        """The same tokens, ranking and snippets."""
        words = " OR ".join(f'"{word}"' for word in query.split())
        return await self._do(self._rows, _SEARCH, (words, limit))

    def _connect(self) -> None:
        self._database = sqlite3.connect(self._path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")

    def _put(self, values: Mapping[str, Any]) -> None:
        self._database.execute("BEGIN")
        for key, value in values.items():
            text = json.dumps(value)
            [(id,)] = self._rows(_UPSERT, (key, text))
            self._database.execute(
                "INSERT OR REPLACE INTO texts (rowid, key, body) VALUES (?, ?, ?)", (id, key, text)
            )
        self._database.execute("COMMIT")

    def _rows(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        return self._database.execute(statement, values).fetchall()

    async def _do(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: function(*args, **kwargs))


class LangGraphSqlite:
    """LangGraph's BaseStore on SQLite. It lists by namespace, and has no search by text."""

    name: ClassVar[str] = "LangGraph SQLite"
    promise: ClassVar[str] = "as SQLite is set up by it: see the facts"

    def __init__(self, site: Site) -> None:
        self._path = site.directory("langgraph") / "store.db"
        self._stack = AsyncExitStack()
        self._store: Any

    async def open(self) -> None:
        """Make the file and the tables."""
        await self.reopen()

    async def facts(self) -> dict[str, str]:
        """The pragmas of its connection; a `synchronous` of 2 is FULL."""
        found = {}
        for pragma in ("journal_mode", "synchronous"):
            async with self._store.conn.execute(f"PRAGMA {pragma}") as rows:
                found[pragma] = str((await rows.fetchone())[0])
        return found

    async def reopen(self) -> None:
        """Close the file and open it again; the system's cache stays."""
        try:
            sqlite = import_module("langgraph.store.sqlite.aio")
        except ImportError as error:
            raise Unavailable("langgraph-checkpoint-sqlite is not installed") from error
        await self._stack.aclose()
        opening = sqlite.AsyncSqliteStore.from_conn_string(str(self._path))
        self._store = await self._stack.enter_async_context(opening)
        await self._store.setup()

    async def close(self) -> None:
        """Close the file."""
        await self._stack.aclose()

    async def write(self, key: str, value: Any) -> None:
        """One put."""
        await self._store.aput(_namespace(key), key, value)

    async def write_many(self, values: Mapping[str, Any]) -> None:
        """One batch of puts."""
        put = import_module("langgraph.store.base").PutOp
        await self._store.abatch([put(_namespace(k), k, value) for k, value in values.items()])

    async def read(self, key: str) -> Any:
        """One get."""
        return (await self._store.aget(_namespace(key), key)).value

    async def list_keys(self, prefix: str) -> Sequence[Any]:
        """What is in the namespace of a prefix, with the values: it cannot leave them out."""
        found: Sequence[Any] = await self._store.asearch(("s1", prefix), limit=1000)
        return found


def _namespace(key: str) -> tuple[str, str]:
    """Of keys as `group:12:7`, those of one group share a namespace."""
    return "s1", key[: key.rindex(":") + 1]
