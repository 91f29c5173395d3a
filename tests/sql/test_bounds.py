"""An answer of SQL costs its program no more than `max_bytes`; what is refused is typed."""

from __future__ import annotations

import resource
from collections.abc import AsyncIterator

import pytest

import foldlog
from foldlog.sql import SqlError, SqlOutOfMemory
from foldlog.sql.errors import TooManyRows

MOST = 64 * 1024 * 1024


def held() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("select ('[' || repeat('[],', 3000000) || '[]]')::json", id="JSON"),
        pytest.param("select range(10000000)", id="a list"),
        pytest.param("select repeat('x', 70000000)", id="a text"),
        pytest.param("select repeat('x', 100000) from range(1000)", id="many rows"),
    ],
)
async def test_values_are_counted_and_not_their_text(query: str, store: foldlog.Store) -> None:
    before = held()
    with pytest.raises(SqlOutOfMemory):
        await store.sql(query, max_bytes=MOST)
    assert held() - before < MOST


async def test_an_answer_within_its_bytes_comes_whole(store: foldlog.Store) -> None:
    query = "select ('[' || repeat('[],', 100000) || '[]]')::json as a, repeat('x', 1000000) as b"
    [(a, b)] = (await store.sql(query, max_bytes=MOST)).rows
    assert (len(a), len(b)) == (100_001, 1_000_000)
    rows = (await store.sql("select repeat('x', 9000) from range(2000)", max_bytes=MOST)).rows
    assert len(rows) == 2000
    with pytest.raises(TooManyRows):
        await store.sql("select * from range(2000)", max_rows=1999)


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("select (repeat('[', 1100) || repeat(']', 1100))::json", id="deep"),
        pytest.param("""select '"\\ud800"'::json""", id="a lone surrogate"),
    ],
)
async def test_json_that_cannot_be_read_is_a_typed_error(query: str, store: foldlog.Store) -> None:
    with pytest.raises(SqlError):
        await store.sql(query)


@pytest.fixture
async def store() -> AsyncIterator[foldlog.Store]:
    async with foldlog.memory_store() as opened:
        yield opened
