"""Projectors of the tests, what they are to come to, and what is in the database."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import foldlog
from foldlog import LogItem
from foldlog.projectors import Removed, Transaction
from foldlog.projectors.database import Database
from tests.support.build import update

PATIENCE = 30.0


class Filled:
    """What is in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query, in order."""

        def read() -> list[tuple[Any, ...]]:
            found = [tuple(each) for each in self._database.execute(sql).fetchall()]
            return sorted(found, key=repr)

        return await self._database.do(read)

    async def let_go(self) -> None:
        """Let another process have the file: DuckDB's is one process's."""
        await self._database.do(self._database._disconnect)


class Call(NamedTuple):
    session: str
    n: int


class Sum(NamedTuple):
    rest: int
    calls: int
    euros: float


class Newest(NamedTuple):
    session: str
    n: int
    content: dict[str, Any]


@foldlog.table("calls", kinds=["updates"])
def calls(item: LogItem) -> Call | None:
    n = item.record.content["n"]
    return Call(item.keys[0], n) if n >= 0 else None


@foldlog.table("sums", kinds=["updates"], key=["rest"], add=["calls", "euros"])
def sums(item: LogItem) -> Sum:
    return Sum(item.record.content["n"] % 3, 1, 0.5)


@foldlog.table("newest", kinds=["updates"], key=["session"])
def newest(item: LogItem) -> Newest | Removed:
    n = item.record.content["n"]
    return Newest(item.keys[0], n, item.record.content) if n % 10 else Removed((item.keys[0],))


@foldlog.projector(
    "pairs", kinds=["updates"], tables={"pairs": "session text, n bigint, nth bigint"}
)
async def pairs(tx: Transaction, item: LogItem) -> None:
    """By hand: the numbers are in the text, since drivers differ in how they mark parameters."""
    name = item.keys[0].replace("'", "''")
    if item.was_cleared:
        tx.execute(f"delete from {{pairs}} where session = '{name}'")
        return
    [[count]] = await tx.fetch(f"select count(*) from {{pairs}} where session = '{name}'")
    n = item.record.content["n"]
    tx.execute(f"insert into {{pairs}} values ('{name}', {n}, {count})")


ALL = [calls, sums, newest, pairs]


async def save(store: foldlog.Store, session: str, numbers: Iterable[int]) -> None:
    await asyncio.gather(
        *(store.save_update(update(f"u{n}", session, content={"n": n})) for n in numbers)
    )


async def check(store: foldlog.Store, filled: Filled, sessions: Iterable[str]) -> None:
    """The tables are what a fold of the log is, to the row."""
    held = {session: await store.list_updates(session, limit=10**6) for session in sessions}
    numbers = {s: [each.content["n"] for each in updates] for s, updates in held.items()}
    every = [(session, n) for session, found in numbers.items() for n in found]
    assert await filled.rows("select * from calls") == sorted(every, key=repr)
    counts = Counter(n % 3 for _, n in every)
    wanted = sorted(((rest, n, 0.5 * n) for rest, n in counts.items()), key=repr)
    assert await filled.rows("select rest, calls, euros from sums") == wanted
    last = [(session, found[-1]) for session, found in numbers.items() if found and found[-1] % 10]
    assert await filled.rows("select session, n from newest") == sorted(last, key=repr)
    nth = [(session, n, at) for session, found in numbers.items() for at, n in enumerate(found)]
    assert await filled.rows("select * from pairs") == sorted(nth, key=repr)
