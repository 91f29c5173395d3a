"""A pytest plugin: LangGraph's stores, in memory and on SQLite, are FoldlogStores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from tempfile import TemporaryDirectory
from typing import Any, Final

import langgraph.store.memory
import pytest
from standing_in import IS_OURS, fresh_store

from foldlog.integrations.langgraph import FoldlogStore

try:
    import langgraph.store.sqlite
    import langgraph.store.sqlite.aio
except ImportError:  # the suite at hand does without
    sqlite: Any = None
else:
    sqlite = langgraph.store.sqlite

TABLES: Final = "test_vector_store_initialization"
REPLACED: Final = ("InMemoryStore", "SqliteStore", "AsyncSqliteStore")
OF_SQL: Final = "tests SQLite's own SQL"
NOT_OURS: Final = {
    "test_escape_glob_literal": OF_SQL,
    "test_namespace_match_pattern": OF_SQL,
    "test_list_namespaces_prefix_uses_indexable_condition": OF_SQL,
    "test_nonnull_migrations": OF_SQL,
    "test_sql_injection_vulnerability": "no SQL is made of filters: fields may have any name",
}
"""Tests of the SQLite suite that are not about a store, and why."""


class InMemoryStore(FoldlogStore):
    """In place of LangGraph's: for any thread and event loop, and never closed."""

    def __init__(self, *, index: Any = None) -> None:
        super().__init__(fresh_store(), index=index)


class SqliteStore(FoldlogStore):
    """In place of LangGraph's. In place of a file it has a directory of its own."""

    @classmethod
    @contextmanager
    def from_conn_string(  # type: ignore[override]
        cls, conn_string: str, *, index: Any = None, ttl: Any = None
    ) -> Iterator[SqliteStore]:
        opened = super().from_conn_string
        with (
            _place(conn_string) as place,
            opened(place, index=index, ttl=_ttl(ttl), **_patience(place)) as store,
        ):
            yield store

    def setup(self) -> None:
        """There is nothing to set up."""


class AsyncSqliteStore(FoldlogStore):
    """In place of LangGraph's, whose methods without an `a` are coroutines, too."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(  # type: ignore[override]
        cls, conn_string: str, *, index: Any = None, ttl: Any = None
    ) -> AsyncIterator[AsyncSqliteStore]:
        with _place(conn_string) as place:
            opened = super().from_conn_string
            options = {"index": index, "ttl": _ttl(ttl), **_patience(place)}
            async with opened(place, **options) as store:
                yield store

    async def setup(self) -> None:
        """There is nothing to set up."""

    async def sweep_ttl(self) -> int:  # type: ignore[override]
        return await self.asweep_ttl()

    async def start_ttl_sweeper(self) -> None:  # type: ignore[override]
        await self.astart_ttl_sweeper()

    async def stop_ttl_sweeper(self) -> None:  # type: ignore[override]
        await self.astop_ttl_sweeper()


def stand_in() -> None:
    langgraph.store.memory.InMemoryStore = InMemoryStore
    if sqlite is not None:
        sqlite.SqliteStore = SqliteStore
        sqlite.AsyncSqliteStore = sqlite.aio.AsyncSqliteStore = AsyncSqliteStore


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items:
        if item.name == TABLES and hasattr(item.module, "SqliteStore"):
            item.add_marker(pytest.mark.skip(reason=OF_SQL))
    for item in items if IS_OURS else ():
        used = [getattr(item.module, name, None) for name in REPLACED]
        assert all(each is None or issubclass(each, FoldlogStore) for each in used)


@contextmanager
def _place(conn_string: str) -> Iterator[str]:
    if conn_string == ":memory:":
        yield conn_string
    else:
        with TemporaryDirectory() as directory:
            yield directory


def _patience(place: str) -> dict[str, Any]:
    """Thousands of calls at once keep the event loop from hearing the server for seconds."""
    return {} if place == ":memory:" else {"timeout": 60.0}


def _ttl(ttl: Any) -> Any:
    """SQLite's store refreshes on reads only if it is told to; TTLConfig says otherwise."""
    return {"refresh_on_read": False, **(ttl or {})}
