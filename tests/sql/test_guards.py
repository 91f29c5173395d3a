"""What a query must not do: each attack is planted."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest

import foldlog
from foldlog import codec
from foldlog.position import LogPosition
from foldlog.sql import (
    SqlError,
    SqlOutOfMemory,
    SqlResult,
    SqlTimeout,
    TooManyRows,
    UnknownTable,
    asking,
    worker,
)
from foldlog.sql.database import Database, Refused
from foldlog.sql.messages import Ask, Data, Done, Start, framed
from foldlog.sql.sources import sources_of
from tests.support.build import update

KINDS = foldlog.memory_store()._core.kinds
TABLES = {name: sources_of(KINDS)[name].types for name in ("updates", "tasks")}


def answer(query: str, parameters: Any = ()) -> list[Any]:
    """What the process answers, in this one; without the limits that the system sets."""
    database = Database(Start(TABLES, "/no/tables", 64_000_000))
    ask = Ask(query, codec.encode(list(parameters)), "", 1000)
    database.wanted(ask)
    *parts, done = database.answer(ask)
    assert isinstance(done, Done)
    stream = [each.part for each in parts if isinstance(each, Data)]
    return SqlResult(done.columns, done.types, stream, LogPosition(())).rows


FILES = "file system operations are disabled"
ATTACKS = [
    ("copy updates to '{there}/out.csv'", "not COPY"),
    ("copy (select 1) to '{there}/out.parquet'", "not COPY"),
    ("export database '{there}'", "not EXPORT"),
    ("import database '{there}'", "not"),
    ("select * from read_csv('{there}/secret')", FILES),
    ("select * from read_text('{there}/secret')", FILES),
    ("select * from read_blob('{there}/*')", FILES),
    ("select * from glob('/*')", FILES),
    ("select * from sniff_csv('{there}/secret')", FILES),
    ("select * from '{there}/secret.csv'", FILES),
    ("select * from query('select * from read_text(''{there}/secret'')')", FILES),
    (
        "select * from json_execute_serialized_sql(json_serialize_sql("
        "'select * from read_text(''{there}/secret'')'))",
        FILES,
    ),
    ("select * from read_json('http://127.0.0.1:1/x')", FILES),
    ("select * from read_parquet('s3://bucket/x')", FILES),
    ("attach '{there}/other.db'", "not ATTACH"),
    ("install httpfs", "not LOAD"),
    ("load httpfs", "not LOAD"),
    ("set memory_limit = '100GB'", "not SET"),
    ("reset memory_limit", "not"),
    ("pragma enable_external_access", "not"),
    ("pragma memory_limit = '100GB'", "not"),
    ("call enable_logging()", "not CALL"),
    ("select * from enable_logging()", "configuration has been locked"),
    ("select getenv('HOME')", "getenv"),
    ("create secret (type s3)", "not CREATE"),
    ("create table mine as select 1", "not CREATE"),
    ("drop table updates", "not DROP"),
    ("insert into updates (id) values ('x') returning id", "not INSERT"),
    (
        "with x as (insert into updates (id) values ('x') returning id) select * from x",
        "read-only|Parser",
    ),
    ("delete from updates", "not DELETE"),
    ("begin", "not TRANSACTION"),
    ("prepare x as select 1", "not PREPARE"),
    ("explain analyze select 1", "not EXPLAIN"),
    ("select 1; select 2", "one statement is needed, not 2"),
    ("select 1; copy updates to '{there}/out.csv'", "one statement"),
    ("rollback; insert into updates (id) values ('x')", "one statement"),
    ("-- nothing", "one statement is needed, not 0"),
    ("pivot updates on type using count(*)", "a PIVOT names its values"),
    ("select * from secret", "Table with name secret"),
    # What is not loaded must not look empty.
    ("from query('from tasks')", "Table with name tasks"),
    ("from updates, query_table('tasks')", "Table with name tasks"),
    ("from histogram('tasks', 'seq')", "Table with name tasks"),
    (
        "from json_execute_serialized_sql(json_serialize_sql('select * from tasks'))",
        "Table with name tasks",
    ),
]


@pytest.mark.parametrize(("query", "says"), ATTACKS)
def test_a_query_reaches_nothing(query: str, says: str, tmp_path: Path) -> None:
    secret = [1]  # a variable of Python's is no table
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "secret.csv").write_text("secret\n1\n")
    with pytest.raises((Refused, duckdb.Error), match=says):
        answer(query.format(there=tmp_path))
    assert {each.name for each in tmp_path.iterdir()} == {"secret", "secret.csv"}
    assert secret


@pytest.mark.parametrize(
    "query",
    [
        "select 1",
        "with x as (select 1 as n) select n from x",
        "from (values (1))",
        "values (1)",
        "select count(*) + 1 from updates -- every one",
    ],
)
def test_what_reads_is_answered(query: str) -> None:
    assert answer(query) == [(1,)]


def test_it_says_what_there_is() -> None:
    assert ("updates",) in answer("show tables")
    assert "update_id" in {row[0] for row in answer("describe updates")}
    assert answer("select $1 + $2", [1, 2]) == [(3,)]


# --- through the store ---------------------------------------------------------------------------


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with foldlog.memory_store() as opened:
        await opened.save_update(update("u1"))
        yield opened


class Started(asyncio.Event):
    """Set when a process was started, whose environment it has."""

    environment: dict[str, str]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    noted, start = Started(), asyncio.create_subprocess_exec

    async def noting(*args: Any, **options: Any) -> Any:
        process = await start(*args, **options)
        noted.environment = options["env"]
        noted.set()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noting)
    return noted


def left() -> list[str]:
    """What is on the disk of any query beside the tables: it works in this directory."""
    made = Path(tempfile.gettempdir()).glob("**/*")
    return [each.name for each in made if each.is_file() and each.suffix != ".duckdb"]


def children() -> list[str]:
    own = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
    return [each for each in own if worker.__file__ in Path(f"/proc/{each}/cmdline").read_text()]


ENDLESS = [
    "with recursive t as (select 1 as n union all select n + 1 from t) select count(*) from t",
    # DuckDB cannot be interrupted inside of one function: its process is killed.
    "select max(levenshtein(repeat('a', 30000), repeat('b', 30000) || range)) from range(2048)",
]


@pytest.mark.parametrize("query", ENDLESS)
async def test_what_takes_too_long_ends(store: foldlog.Store, query: str) -> None:
    await store.sql("select 1")
    threads = threading.active_count()
    with pytest.raises(SqlTimeout, match=r"longer than 1 s: .*timeout="):
        await store.sql(query, timeout=1)
    assert (left(), children()) == ([], [])
    assert threading.active_count() <= threads + 1  # Python's own, which awaits processes


async def test_a_cancelled_query_ends(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await store.sql("select 1")).rows == [(1,)]
    waits, receive = asyncio.Event(), asking._Process.receive

    async def noting(self: Any) -> Any:
        waits.set()
        return await receive(self)

    monkeypatch.setattr(asking._Process, "receive", noting)
    asked = asyncio.create_task(store.sql(ENDLESS[0]))
    await waits.wait()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert (left(), children()) == ([], [])


async def test_an_answer_has_so_many_rows_and_no_more(store: foldlog.Store) -> None:
    with pytest.raises(TooManyRows, match="more than 10000 rows: add a limit"):
        await store.sql("select * from range(1000000000)")
    found = await store.sql("select * from range(7)", max_rows=7)
    assert found.rows == [(n,) for n in range(7)]


@pytest.mark.parametrize(
    "query",
    [
        "select length(repeat('x', 3000000000))",  # what DuckDB itself does not count
        "select list(range) from range(1000000000)",
        "select repeat('x', 1000000) from range(1000)",  # more than an answer may be
    ],
)
async def test_memory_is_bounded(store: foldlog.Store, query: str) -> None:
    with pytest.raises(SqlOutOfMemory, match="more than 67,108,864 bytes"):
        await store.sql(query, max_bytes=64 * 1024 * 1024)
    assert left() == []


async def test_the_process_knows_nothing_of_its_parents_environment(
    store: foldlog.Store, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert (await store.sql("select 1")).rows == [(1,)]
    assert started.environment.keys() <= {"PYTHONPATH", "LD_LIBRARY_PATH"}


async def test_a_process_that_dies_is_told_of(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "worker.py"
    broken.write_text("import os; os.abort()")
    monkeypatch.setattr(worker, "__file__", str(broken))
    with pytest.raises(SqlOutOfMemory, match="its process ended"):
        await store.sql("select 1")


async def test_bad_queries_say_what_is_wrong(store: foldlog.Store) -> None:
    with pytest.raises(SqlError, match=r'at or near "frm"|LINE 1: select \* frm updates'):
        await store.sql("select * frm updates")
    with pytest.raises(SqlError, match=r'"updated_id" not found[\s\S]*LINE 1: select updated_id'):
        await store.sql("select updated_id from updates")
    with pytest.raises(UnknownTable, match=r"no table 'updatez' \(did you mean updates\?\)") as e:
        await store.sql("select * from updatez")
    assert "steering" in e.value.tables
    with pytest.raises(UnknownTable, match="tasks is not read for a text in a function"):
        await store.sql("from query('from tasks')")
    for query in ("", None, b"select 1"):
        with pytest.raises(foldlog.PayloadError, match="query"):
            await store.sql(query)  # type: ignore[arg-type]
    with pytest.raises(foldlog.PayloadError, match="max_rows"):
        await store.sql("select 1", max_rows=-1)
    with pytest.raises(foldlog.PayloadError, match="max_bytes"):
        await store.sql("select 1", max_bytes=1)
    with pytest.raises(foldlog.PayloadError, match="parameters"):
        await store.sql("select ?", [object()])


async def test_it_ends_with_the_program(tmp_path: Path) -> None:
    """Which was killed by force while the query ran: its pipe ends, whatever DuckDB does."""
    start, empty = Start({}, str(tmp_path / "tables"), 64_000_000), codec.encode([])
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", worker.__file__),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        cwd=tmp_path,
    )
    assert running.stdin is not None
    assert running.stdout is not None
    running.stdin.write(framed(start) + framed(Ask("select 1", empty, "", 10)))
    await running.stdout.readexactly(4)  # it answers
    running.stdin.write(framed(Ask(ENDLESS[1], empty, "", 10)))
    await running.stdin.drain()
    running.stdin.close()
    assert await running.wait() == 1
    assert os.listdir(tmp_path) == []
