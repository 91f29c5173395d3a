"""The files behind SQL's tables: whatever happens to them, they hold what a new build holds."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

import foldlog
from foldlog import Message, TaskStatus
from foldlog.errors import StoreClosed
from foldlog.projectors.database import Database
from foldlog.sql import SqlError, SqlOutOfMemory, SqlTimeout, asking, file
from foldlog.sql.messages import POSITION
from foldlog.store import subscribing
from tests.sql import asks
from tests.sql.test_guards import ENDLESS
from tests.support.build import task, update
from tests.support.stores import fresh_namespace

TABLES = ("updates", "tasks", "messages", "memory")


@pytest.fixture
async def store(embedded_path: Path) -> AsyncIterator[foldlog.Store]:
    async with foldlog.connect(path=embedded_path, namespace=fresh_namespace()) as opened:
        yield opened


def directory(store: foldlog.Store) -> Path:
    found = store._core.tables
    assert found is not None
    return found


def process(store: foldlog.Store) -> Any:
    return asking._asked[store._core]._process


async def is_as_built_anew(store: foldlog.Store, *tables: str) -> None:
    """Whether tables hold what a build of them from the log's first record holds."""
    rows = (f"(select list(t order by t) from {name} t)" for name in tables or TABLES)
    query = f"select {', '.join(rows)}"
    found = await store.sql(query)
    assert found == await store.sql(query, at=found.position)


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sequences of the records that catching up has looked at."""
    seen: list[int] = []
    of = subscribing._Effects.of

    async def noting(self: Any, shard: int, kind: Any, stored: Any, *until: Any) -> Any:
        seen.append(stored.seq)
        return await of(self, shard, kind, stored, *until)

    monkeypatch.setattr(subscribing._Effects, "of", noting)
    return seen


async def test_only_what_is_new_is_read_of_the_kinds_that_a_query_names(
    embedded_path: Path, records: list[int]
) -> None:
    options: Any = {"path": embedded_path, "namespace": fresh_namespace()}
    async with foldlog.connect(**options) as store:
        for n in range(3):
            await store.save_update(update(f"u{n}", "s"))
            await store.save_task(task(f"t{n}", "s"))
        assert (await store.sql("select 1")).rows == [(1,)]
        assert records == []
        assert (await store.sql("select count(*) from updates")).rows == [(3,)]
        assert len(records) == 3
        first = process(store)
        assert (await store.sql("select count(*) from updates")).rows == [(3,)]
        assert len(records) == 3
        assert process(store) is first
        mode = next(directory(store).glob("*.duckdb")).stat().st_mode
        assert (mode & 0o777, directory(store).stat().st_mode & 0o777) == (0o600, 0o700)
    async with foldlog.connect(**options) as store:
        await store.save_update(update("u3", "s"))
        assert (await store.sql("select count(*) from updates")).rows == [(4,)]
        assert len(records) == 4


async def test_tables_are_as_built_anew_whatever_happens_between_queries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = foldlog.memory_store()
    monkeypatch.setattr(file, "_ID_BYTES", 25_000_000)
    monkeypatch.setattr(file, "_MOST", 7)
    chance = random.Random(7)
    await store.save_task(task("t", "kept"))
    for n in range(70):
        session = f"s{chance.randrange(5)}"
        await store.save_update(update(f"u{chance.randrange(40)}", session))
        status = chance.choice([*TaskStatus])
        await store.save_task(task(f"t{chance.randrange(4)}", session, status=status))
        await store.append_messages(session, [Message(f"m{n}", "f", {"n": n})])
        await store.save_memory_state(f"acme:ann:{session}", {"n": n})
        match chance.randrange(8):
            case 0:
                await store.pop_message(session)
            case 1:
                await store.clear_session(session)
            case 2:
                await store.fork(session, at=await store.position(), to=f"fork{n}")
                await store.append_messages(f"fork{n}", [Message("own", "f", {"n": n})])
                await store.erase_session(f"fork{n}")
            case 3:
                await store.fork("kept", at=await store.position(), to=f"kept{n}")
                await store.save_task(task("t", f"kept{n}", status=status))
            case 4:
                await is_as_built_anew(store, chance.choice(TABLES))
            case _:
                await store.save_task(task("t", "kept", status=status))
    await is_as_built_anew(store)
    await store.close()


SECRET = "what nobody may read any more"


def holds(store: foldlog.Store) -> bool:
    files = [each.read_bytes() for each in directory(store).iterdir()]
    return any(SECRET.encode() in each for each in files)


async def save_secret(store: foldlog.Store) -> None:
    for n in range(50):
        await store.save_update(update(f"u{n}", "kept", content={"text": f"kept {n}"}))
    await store.save_update(update("u", "s", content={"text": SECRET}))
    assert (await store.sql("select count(*) from updates")).rows == [(51,)]
    assert holds(store)


@pytest.mark.usefixtures("purging_at_once")
async def test_no_file_holds_what_was_erased(store: foldlog.Store) -> None:
    await save_secret(store)
    erased = await store.erase_session("s")
    assert not holds(store)
    assert erased.on_disk == 0
    assert (await store.sql("select count(*) from updates")).rows == [(50,)]
    await store.sql("select count(*) from tasks")
    await store.erase(foldlog.kinds.updates("kept"))
    assert [each.stem for each in directory(store).glob("*.duckdb")] == ["tasks"]


async def test_what_was_cleared_goes_with_the_next_query(store: foldlog.Store) -> None:
    await save_secret(store)
    await store.clear_session("s")
    assert (await store.sql("select count(*) from updates")).rows == [(50,)]
    assert not holds(store)


@pytest.mark.parametrize("damage", [0, 4096, None])
async def test_a_damaged_file_is_made_anew(store: foldlog.Store, damage: int | None) -> None:
    for n in range(500):
        await store.save_update(update(f"u{n}", "s"))
    assert (await store.sql("select count(*) from updates")).rows == [(500,)]
    [path] = directory(store).glob("*.duckdb")
    whole = path.read_bytes()
    if damage is None:
        path.write_bytes(whole[: len(whole) // 3])
    else:
        path.write_bytes(whole[:damage] + bytes(each ^ 0x55 for each in whole[damage:]))
    assert (await store.sql("select count(*) from updates")).rows == [(500,)]
    await store.save_update(update("new", "s"))
    await is_as_built_anew(store, "updates")


async def test_a_table_declared_otherwise_is_made_anew(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, records: list[int]
) -> None:
    await store.save_update(update("u", "s"))
    for layout in (1, 1, 2):
        monkeypatch.setattr(file, "_LAYOUT", layout)
        await store.save_task(task("t", "s"))
        assert (await store.sql("select count(*) from updates")).rows == [(1,)]
    assert len(records) == 2


async def test_a_log_that_was_replaced_is_read_from_its_beginning(store: foldlog.Store) -> None:
    for n in range(5):
        await store.save_update(update(f"u{n}", "s"))
    await store.sql("from updates")
    [path] = directory(store).glob("*.duckdb")
    for position in (f"@{'9' * 6}", "@3~00000000"):
        with duckdb.connect(path) as other:
            other.execute(f"update {POSITION} set position = ?", [position])
            other.execute("delete from updates")
        assert (await store.sql("select count(*) from updates")).rows == [(5,)]


async def test_a_query_that_was_ended_leaves_the_next_one_alone(store: foldlog.Store) -> None:
    await store.save_update(update("u", "s"))
    for query in ENDLESS:
        with pytest.raises(SqlTimeout):
            await store.sql(query, timeout=0.5)
        assert (await store.sql("select count(*) from updates")).rows == [(1,)]
    with pytest.raises(SqlOutOfMemory):
        await store.sql("select length(repeat('x', 3000000000))")
    assert (await store.sql("select count(*) from updates")).rows == [(1,)]
    found = process(store)
    with pytest.raises(SqlError):
        await store.sql("select updated_id from updates")
    assert (await store.sql("select count(*) from updates")).rows == [(1,)]
    assert process(store) is found
    found._running.send_signal(signal.SIGKILL)
    await found._running.wait()
    assert (await store.sql("select count(*) from updates")).rows == [(1,)]


async def test_a_store_closes_while_a_query_runs(
    embedded_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await foldlog.connect(path=embedded_path, namespace=fresh_namespace())
    await store.sql("select 1")
    running = process(store)._running
    asked_of, receive = asyncio.Event(), asking._Process.receive

    async def noting(self: Any) -> Any:
        asked_of.set()
        return await receive(self)

    monkeypatch.setattr(asking._Process, "receive", noting)
    asked = asyncio.create_task(store.sql(ENDLESS[1]))
    await asked_of.wait()
    await store.close()
    with pytest.raises(StoreClosed):
        await asked
    assert running.returncode is not None
    with pytest.raises(StoreClosed):
        await store.sql("select 1")
    assert process(store)._running is running


async def test_a_temporary_file_goes_with_its_store() -> None:
    store = foldlog.memory_store()
    await store.save_update(update("u", "s"))
    assert (await store.sql("select count(*) from updates")).rows == [(1,)]
    found = directory(store)
    assert [each.name for each in found.iterdir()] == ["updates.duckdb"]
    await store.close()
    assert not found.exists()


async def test_a_full_disk_is_said_and_got_over(store: foldlog.Store) -> None:
    for n in range(2_000):
        content = {"text": random.Random(n).randbytes(400).hex()}
        await store.save_update(update(f"u{n}", "s", content=content))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        with pytest.raises(SqlError, match="cannot be used"):
            await store.sql("from updates")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (await store.sql("select count(*) from updates")).rows == [(2_000,)]


async def test_two_stores_ask_side_by_side(embedded_path: Path) -> None:
    options: Any = {"path": embedded_path, "namespace": fresh_namespace()}

    async def go(store: foldlog.Store, name: str) -> None:
        for n in range(10):
            await store.save_update(update(f"{name}{n}", "s"))
            own = "select count(*) from updates where starts_with(update_id, ?)"
            assert (await store.sql(own, [name])).rows == [(n + 1,)]

    async with foldlog.connect(**options) as a, foldlog.connect(**options) as b:
        await asyncio.gather(go(a, "a"), go(b, "b"), go(a, "c"))
        await is_as_built_anew(b, "updates")


@pytest.mark.parametrize("kills", [1, pytest.param(12, marks=pytest.mark.long)])
async def test_killed_programs_leave_tables_that_go_on(store: foldlog.Store, kills: int) -> None:
    """Two at once, of which one is killed at any point: of its writes, and of its queries."""
    path, namespace = str(directory(store).parents[1]), store._core.namespace.name
    chance = random.Random(3)
    for _ in range(kills):
        running = await asyncio.create_subprocess_exec(
            *(sys.executable, asks.__file__, path, namespace),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert running.stdout is not None
        assert await running.stdout.readline() == b"asks\n"
        for _ in range(chance.randrange(1, 6)):
            await store.sql("select count(*) from updates, tasks")
        running.kill()
        await running.wait()
        await is_as_built_anew(store)


async def test_rows_are_written_with_how_far_they_are_or_not_at_all(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.save_update(update("one"))
    await is_as_built_anew(store, "updates")
    await store.save_update(update("two"))
    execute = Database.execute

    def interrupted(self: Database, sql: str, parameters: Sequence[Any] = ()) -> Any:
        if sql.startswith(f"update {POSITION}"):
            raise RuntimeError("cut short")
        return execute(self, sql, parameters)

    with monkeypatch.context() as patched:
        patched.setattr(Database, "execute", interrupted)
        with pytest.raises(RuntimeError, match="cut short"):
            await store.sql("select count(*) from updates")
    await is_as_built_anew(store, "updates")


async def test_answers_are_arrow(store: foldlog.Store) -> None:
    await store.save_update(update("u", "s", content={"n": 1}))
    found = await store.sql("select update_id, content, 1 as a, 2 as a from updates")
    table = found.to_arrow()
    assert table.column_names == ["update_id", "content", "a", "a"]
    assert table.column(0).to_pylist() == ["u"]
    assert table.column(1).to_pylist() == ['{"n":1}']
    assert found.rows == [("u", {"n": 1}, 1, 2)]
    assert (await store.sql("from updates where false")).to_arrow().num_rows == 0


async def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in ("duckdb", "pyarrow"):
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, missing, None)
            for name in ("file", "result", "rows"):
                patched.delitem(sys.modules, f"foldlog.sql.{name}", raising=False)
            async with foldlog.memory_store() as store:
                with pytest.raises(foldlog.ConfigurationError, match=r"foldlog\[archive\]"):
                    await store.sql("select 1")
