"""A pytest plugin: LangGraph's stores on PostgreSQL are FoldlogStores, without a PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, ClassVar, Final, Self

import langgraph.store.postgres
import psycopg
import pytest
import upstream_store

OF_SQL: Final = "tests PostgreSQL's own SQL"
BY_SQL: Final = "changes rows by SQL; tests/integrations/langgraph/test_store_ttl.py has the like"
NOT_OURS: Final = {
    "test_escape_like_literal": OF_SQL,
    "test_namespace_match_pattern": OF_SQL,
    "test_nonnull_migrations": OF_SQL,
    "test_abatch_uses_single_pool_checkout": "there is no pool of connections",
    "test_omit_expired_filters_read_paths": BY_SQL,
    "test_omit_expired_disabled_preserves_expired_rows": BY_SQL,
    "test_omit_expired_refresh_ttl_only_refreshes_live_rows": BY_SQL,
    "test_omit_expired_search_pagination": BY_SQL,
}
"""Tests that are not about a store, and why."""


class Nothing:
    """A connection or a cursor, blocking or not, that does nothing."""

    def __class_getitem__(cls, _: Any) -> type[Self]:
        return cls

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    def execute(self, *_: Any) -> None:
        return None


class AsyncNothing(Nothing):
    """As Nothing, with coroutines."""

    async def execute(self, *_: Any) -> None:  # type: ignore[override]
        return None


class Connection(Nothing):
    @classmethod
    def connect(cls, *_: Any, **__: Any) -> Self:
        return cls()


class AsyncConnection(AsyncNothing):
    @classmethod
    async def connect(cls, *_: Any, **__: Any) -> Self:
        return cls()


class PostgresStore(upstream_store.SqliteStore):
    """In place of LangGraph's, in memory."""

    MIGRATIONS: ClassVar[list[str]] = []

    @classmethod
    @contextmanager
    def from_conn_string(  # type: ignore[override]
        cls, conn_string: str, *, pool_config: Any = None, pipeline: bool = False, **options: Any
    ) -> Iterator[PostgresStore]:
        with super().from_conn_string(":memory:", **options) as store:
            yield store  # type: ignore[misc]

    def _cursor(self) -> Nothing:
        return Nothing()


class AsyncPostgresStore(upstream_store.AsyncSqliteStore):
    """As PostgresStore, with coroutines."""

    MIGRATIONS: ClassVar[list[str]] = []

    @classmethod
    @asynccontextmanager
    async def from_conn_string(  # type: ignore[override]
        cls, conn_string: str, *, pool_config: Any = None, pipeline: bool = False, **options: Any
    ) -> AsyncIterator[AsyncPostgresStore]:
        async with super().from_conn_string(":memory:", **options) as store:
            yield store  # type: ignore[misc]

    def _cursor(self) -> AsyncNothing:
        return AsyncNothing()


def stand_in() -> None:
    langgraph.store.postgres.PostgresStore = PostgresStore  # type: ignore[misc]
    langgraph.store.postgres.AsyncPostgresStore = AsyncPostgresStore  # type: ignore[misc]
    psycopg.Connection = Connection  # type: ignore[misc]
    psycopg.AsyncConnection = AsyncConnection  # type: ignore[misc]


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items:
        name = getattr(item, "originalname", item.name)
        if name == "test_scores" and item.callspec.params["distance_type"] == "l2":
            item.add_marker(pytest.mark.skip(reason="scores are cosines"))
