"""The tool for SQL, where DuckDB is installed."""

from __future__ import annotations

import pytest

from tests.mcp.support import Client

pytest.importorskip("duckdb")
pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_sql_only_reads_and_says_what_is_left_out(ask: Client) -> None:
    tables = (await ask("sql")).text
    assert "\nupdates (a record): session_id, id, type, task_id" in tables
    query = "select update_id, content from updates where session_id = 'long'"
    found = (await ask("sql", query=f"{query} limit 2000")).document
    assert len(found["rows"]) == found["next"] < 2000
    last = (await ask("sql", query=f"{query} limit 2000", offset=1990)).document
    assert (len(last["rows"]), "next" in last) == (10, False)
    assert found["columns"] == ["update_id", "content"]
    assert "only queries are answered, not DELETE" in await ask.fails(
        "sql", query="delete from updates"
    )
    assert "UnknownTable" in await ask.fails("sql", query="select * from nothing")
    assert "TooManyRows" in await ask.fails("sql", query="select * from updates u, updates v")


async def test_what_is_large_in_a_row_is_cut_and_says_so(ask: Client) -> None:
    query = "select content from updates where session_id = 'huge'"
    found = (await ask("sql", query=query)).document
    assert found["rows"][0][0]["text"].endswith("(900,000 characters)")
    assert found["cut"] is True
    found = (await ask("sql", query="select range(5000) as numbers, 1 as n")).document
    assert len(found["rows"][0][0]) < 1000
    assert found["cut"] is True


async def test_rows_of_an_earlier_moment(ask: Client) -> None:
    before = (await ask("session", session_id="ann", at="before step apologise")).document
    query = "select count(*) from updates where session_id = 'long'"
    assert (await ask("sql", query=query)).document["rows"] == [[10_000]]
    found = (await ask("sql", query=query, at=before["position"])).document
    assert found["rows"] == [[0]]
