"""Each record once into the tables of another database, whatever happens to either side."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, NamedTuple

import pytest

import foldlog
from foldlog import ConfigurationError, LogItem, Misuse, NotFound, Projecting, ProjectorFailed
from foldlog.projectors import Removed, projecting
from foldlog.projectors.database import Database
from tests.conftest import OpenStore
from tests.projectors.filling import (
    ALL,
    PATIENCE,
    Call,
    Filled,
    Sum,
    calls,
    check,
    pairs,
    save,
    sums,
)


class Odd(NamedTuple):
    what: complex


def odd(item: LogItem) -> Odd: ...


async def test_tables_are_what_a_fold_of_the_log_is(
    store: foldlog.Store, to: str, filled: Filled, purging_at_once: None
) -> None:
    sessions = ["one", "two", "it's"]
    for session in sessions:
        await save(store, session, range(25))
    await Projecting(store, ALL, to=to).run(once=True)
    await check(store, filled, sessions)
    await save(store, "one", range(20, 41))  # some of them again
    await store.clear_session("two")
    await save(store, "two", range(7))
    fork = await store.fork("one", at=await store.position())
    await filled.let_go()
    async with Projecting(store, ALL, to=to) as running:
        await running.caught_up(timeout=PATIENCE)
        await save(store, "one", range(100, 103))
        await store.clear_session("it's")
        await running.caught_up(timeout=PATIENCE)
    await check(store, filled, sessions)
    assert not await filled.rows(f"select * from calls where session = '{fork}'")


async def test_your_own_write_is_there(store: foldlog.Store, to: str, filled: Filled) -> None:
    async with Projecting(store, [sums], to=to):
        for n in range(1, 4):
            await save(store, "one", [n])
            await store.projected("sums", at=await store.position(), timeout=PATIENCE)
    [*_, (count,)] = await filled.rows("select sum(calls) from sums")
    assert count == 3
    with pytest.raises(NotFound):
        await store.projected("sums", at=await store.position())


async def test_another_version_takes_the_place_of_the_old_one_once_it_has_caught_up(
    store: foldlog.Store, to: str, filled: Filled
) -> None:
    await save(store, "one", range(5))
    await Projecting(store, [calls], to=to).run(once=True)

    class Text(NamedTuple):
        text: str

    seen: list[list[tuple[Any, ...]]] = []

    @foldlog.projector("calls", kinds=["updates"], tables={"calls": "text text"}, version=2)
    async def texts(tx: Any, item: LogItem) -> None:
        seen.append(await tx.fetch("select count(n) from calls"))  # the old one answers yet
        tx.execute(f"insert into {{calls}} values ('{item.record.content['n']}')")

    await Projecting(store, [texts], to=to).run(once=True)
    assert seen == [[(5,)]] * 5
    assert await filled.rows("select text from calls") == [(f"{n}",) for n in range(5)]
    assert len(await filled.rows("select * from calls_v1")) == 5


async def test_a_record_that_is_refused_is_named_tried_again_and_parked_by_decision(
    store: foldlog.Store, to: str, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projecting, "_PAUSES", (0.01,))
    tried = asyncio.Event()

    @foldlog.table("calls", kinds=["updates"])
    def strict(item: LogItem) -> Call:
        n = item.record.content["n"]
        if n == 3:
            tried.set()
            raise ValueError("three")
        return Call(item.keys[0], n)

    await save(store, "one", range(6))
    with pytest.raises(ProjectorFailed, match=r"calls.*'u3'.*updates/one.*ValueError: three"):
        await Projecting(store, [strict], to=to).run(once=True)
    assert await filled.rows("select n from calls_v1") == [(0,), (1,), (2,)]
    await filled.let_go()
    async with Projecting(store, [strict], to=to) as running:
        with pytest.raises(ProjectorFailed):
            await running.caught_up(timeout=PATIENCE)
        tried.clear()
        async with asyncio.timeout(PATIENCE):
            await tried.wait()
        running.park("calls")
        await running.caught_up(timeout=PATIENCE)
        with pytest.raises(NotFound):
            running.park("calls")
    assert await filled.rows("select n from calls") == [(0,), (1,), (2,), (4,), (5,)]
    [parked] = await filled.rows("select name, kind, id, error from foldlog_parked")
    assert parked == ("calls", "updates", "u3", "ValueError: three")


async def test_of_two_that_project_one_writes_and_the_other_goes_on_after_it(
    reopen: OpenStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.projectors.conftest import _schema

    for to in _schema(postgres_url):
        monkeypatch.setattr(projecting, "_SILENCE", 10 * PATIENCE)
        one, other = await reopen(), await reopen()
        shown = Database(to)
        first, second = (Projecting(store, ALL, to=to) for store in (one, other))
        async with first:
            await first.caught_up(timeout=PATIENCE)
            following = asyncio.create_task(second.run())
            for n in range(5):
                await save(one, "one", [n])
                for each in (first, second):  # one of them stands by, and sees what the other does
                    await each.caught_up(timeout=PATIENCE)
        monkeypatch.setattr(projecting, "_SILENCE", 0.05)
        await save(one, "one", range(5, 25))
        await second.caught_up(timeout=PATIENCE)
        second.stop()
        await following
        await check(one, Filled(shown), ["one"])
        await shown.close()


@pytest.mark.parametrize("to", ["sqlite", "postgresql"], indirect=True)  # DuckDB is never away
async def test_a_database_that_is_away_is_waited_for(
    store: foldlog.Store, to: str, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projecting, "_PAUSES", (0.01,))
    begin, begun = Database.begin, Counter[Database]()

    def failing(self: Database) -> None:
        begun[self] += 1
        if begun[self] % 3 == 0:  # and then it is there again
            self._disconnect()
            raise OSError("the connection was lost")
        begin(self)

    monkeypatch.setattr(Database, "begin", failing)
    async with Projecting(store, ALL, to=to) as running:
        for n in range(10):
            await save(store, "one", [n])
            await running.caught_up(timeout=PATIENCE)
    assert begun.total() > 40
    await check(store, filled, ["one"])


async def test_a_connection_of_a_pool_is_given_back_as_it_was(
    store: foldlog.Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    from tests.projectors.conftest import _schema

    class Pool:
        """As that of psycopg_pool."""

        def __init__(self, to: str) -> None:
            self.to, self.given, self.back = to, list[Any](), list[Any]()

        def getconn(self) -> Any:
            self.given.append(psycopg.connect(self.to))
            return self.given[-1]

        def putconn(self, conn: Any) -> None:
            self.back.append(conn)

    monkeypatch.setattr(projecting, "_PAUSES", (0.01,))
    for to in _schema(postgres_url):
        pool = Pool(to)
        await save(store, "one", range(5))
        async with Projecting(store, [calls], to=pool) as running:
            await running.caught_up(timeout=PATIENCE)
            with psycopg.connect(to, autocommit=True) as other:
                pid = pool.given[0].info.backend_pid
                other.execute("select pg_terminate_backend(%s)", [pid])
            await save(store, "one", range(5, 10))
            await running.caught_up(timeout=PATIENCE)
        assert pool.back == pool.given
        broken, last = pool.back
        assert broken.closed
        assert not last.autocommit
        with last:
            assert last.execute("select count(*) from calls").fetchall() == [(10,)]


async def test_tables_of_another_log_are_not_projected_onto(
    store: foldlog.Store, to: str, backend: Any
) -> None:
    await save(store, "one", range(5))
    await Projecting(store, [calls], to=to).run(once=True)
    other = foldlog.memory_store()
    await save(other, "one", range(50, 60))
    with pytest.raises(foldlog.UnknownMoment):
        await Projecting(other, [calls], to=to).run(once=True)
    with pytest.raises(foldlog.UnknownMoment):
        async with Projecting(other, [calls], to=to) as running:
            await running.caught_up(timeout=PATIENCE)
    await other.close()


async def test_what_has_stopped_comes_to_nothing_more(store: foldlog.Store, to: str) -> None:
    running = Projecting(store, [calls], to=to)
    async with running:
        await running.caught_up(timeout=PATIENCE)
    await save(store, "one", range(5))
    with pytest.raises(Misuse, match="has stopped"):
        await running.caught_up(timeout=PATIENCE)


async def test_a_row_goes_by_its_key_and_comes_again(
    store: foldlog.Store, to: str, filled: Filled
) -> None:
    @foldlog.table("sums", kinds=["updates"], key=["rest"], add=["calls", "euros"])
    def until_nine(item: LogItem) -> Sum | Removed:
        n = item.record.content["n"]
        return Removed((n % 3,)) if n == 9 else Sum(n % 3, 1, 0.5)

    for session in ("one", "two"):
        await save(store, session, range(6))
    await save(store, "one", [9, 12])
    await Projecting(store, [until_nine], to=to).run(once=True)
    found = await filled.rows("select rest, calls, euros from sums")
    assert found == [(0, 1, 0.5), (1, 4, 2.0), (2, 4, 2.0)]


def test_what_cannot_work_says_why() -> None:
    store = foldlog.memory_store()
    with pytest.raises(Misuse, match="no database"):
        Projecting(store, [calls], to="mysql://x")
    with pytest.raises(Misuse, match="name of its own"):
        Projecting(store, [calls, calls], to="sqlite:///x")
    with pytest.raises(Misuse, match="name of its own"):
        Projecting(store, [], to="sqlite:///x")
    with pytest.raises(ConfigurationError, match="what class its rows are of"):
        foldlog.table("x", kinds=["updates"])(lambda item: None)
    with pytest.raises(ConfigurationError, match="no nothing"):
        foldlog.table("x", kinds=["updates"], key=["nothing"])(calls._row_of)
    with pytest.raises(ConfigurationError, match="in key= or in add="):
        foldlog.table("x", kinds=["updates"], add=["n"])(calls._row_of)
    with pytest.raises(ConfigurationError, match="named like variables"):
        foldlog.table("x y", kinds=["updates"])(calls._row_of)
    with pytest.raises(Misuse, match="async def"):
        foldlog.projector("x", kinds=["updates"], tables={})(calls._row_of)  # type: ignore[arg-type]

    class Local(NamedTuple):
        n: int

    def local(item: LogItem) -> Local: ...

    with pytest.raises(ConfigurationError, match=r"Local.*outside of functions"):
        foldlog.table("x", kinds=["updates"])(local)
    with pytest.raises(ConfigurationError, match="a column is of"):
        foldlog.table("x", kinds=["updates"])(odd)
    with pytest.raises(NotFound):
        Projecting(store, [foldlog.table("x", kinds=["nothing"])(calls._row_of)], to="sqlite:///x")
    assert repr(pairs) == "<projector pairs, version 1>"
