"""Processes that share one index file: both write and search, and one is killed in the middle."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

import foldlog
from foldlog.scoped import Scope
from tests.support.workers import starting

ONE = Scope.session("s1")


@pytest.mark.parametrize("rounds", [2, pytest.param(12, marks=pytest.mark.long)])
async def test_who_is_killed_leaves_an_index_that_is_right(tmp_path: Path, rounds: int) -> None:
    place = tmp_path / "data"
    async with (
        foldlog.connect(path=place) as store,
        starting(Path(__file__).with_name("sharer.py"), place) as start,
    ):
        steady = await start("steady")
        for number in range(rounds):
            doomed = await start(f"doomed{number}")
            for _ in range(7 + 3 * number):
                await doomed.hear()
            await asyncio.gather(steady.hear(), store.scoped.search(ONE, "word", 100))
            await doomed.kill()
            await doomed.hear_rest()
            await steady.hear()  # goes on in the file that both had open
        await steady.kill()
        await steady.hear_rest()

        # Whatever they were killed at, the file says what an index that is folded anew says.
        position = None
        while position != await store.position():  # the server may still store what was sent to it
            position = await store.position()
            anew = store.scoped.with_search(path=tmp_path / position.__str__())
            keys = await anew.list(ONE, consistency="strong")
            listed = await store.scoped.list(ONE, consistency="strong")
            expected = await anew.search(ONE, "word", 1000)
            found = await store.scoped.search(ONE, "word", 1000)
            values = [await store.scoped.read(ONE, each.key) for each in found]
        assert listed == keys == sorted(each.key for each in found) != []
        assert found == expected
        assert values == [each.snippet for each in found]
        [path] = [*(place / "search").rglob("*.db")]
        with sqlite3.connect(path) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            database.execute("INSERT INTO texts (texts) VALUES ('integrity-check')")
        database.close()
