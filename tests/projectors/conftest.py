"""Databases that projectors fill: SQLite, DuckDB, and PostgreSQL where it is installed."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from benchmarks.servers.postgres import postgres
from benchmarks.unavailable import Unavailable

from foldlog.projectors.database import Database
from tests.projectors.filling import Filled
from tests.support.stores import fresh_namespace


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def postgres_url() -> AsyncIterator[str]:
    """A PostgreSQL of the test run's own."""
    pytest.importorskip("psycopg")
    with tempfile.TemporaryDirectory(prefix="pg") as directory:
        try:
            async with postgres(Path(directory)) as url:
                yield url
        except Unavailable as error:
            pytest.skip(str(error))


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def to(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/tables.db"
    elif request.param == "duckdb":
        pytest.importorskip("duckdb")
        yield f"duckdb:///{tmp_path}/tables.duckdb"
    else:
        yield from _schema(request.getfixturevalue("postgres_url"))


def _schema(url: str) -> Iterator[str]:
    """A schema of PostgreSQL, which is empty."""
    import psycopg

    name = fresh_namespace().replace("-", "_").lower()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'create schema "{name}"')
    yield f"{url}&options=-csearch_path%3D{name}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'drop schema "{name}" cascade')


@pytest.fixture
async def filled(to: str) -> AsyncIterator[Filled]:
    """What is in the database."""
    database = Database(to)
    yield Filled(database)
    await database.close()
    await asyncio.sleep(0)
