"""What becomes of an atomic block in a degrading store, and what is called after it."""

from __future__ import annotations

from pathlib import Path

import pytest

import foldlog
from tests.support.build import update
from tests.support.degrading import failures_of
from tests.support.flaky import FlakyLog, Spooling, files, spooling


async def block(store: foldlog.Store, *sessions: str, size: int = 1) -> list[str]:
    """Save an update to each session in one block; return what was called when it had ended."""
    called = list[str]()
    try:
        async with store.atomic():
            for session in sessions:
                await store.save_update(update("a", session, content={"x": "x" * size}))
            store._core.after_stored(lambda: called.append("stored"))
            store._core.unless_stored(lambda: called.append("undone"))
    except foldlog.Misuse as error:
        called.append(type(error).__name__)
    return called


async def test_a_block_that_is_stored(tmp_path: Path) -> None:
    async with spooling(tmp_path) as process:
        assert await block(process.store, "one", "two") == ["stored"]
        assert failures_of(process.store) == {}


async def test_a_block_that_waits_in_the_spool_will_be_stored(tmp_path: Path) -> None:
    async with spooling(tmp_path) as process:
        process.log.state = "away"
        assert await block(process.store, "one", "two") == ["stored"]
        assert failures_of(process.store) == {"atomic": 1}
        await process.drained()
        assert await process.log.ids("updates", "one") == ["a"]


@pytest.mark.parametrize("state", ["away", "not stored"])
async def test_a_block_that_is_lost_is_undone_if_that_is_certain(
    tmp_path: Path, state: str
) -> None:
    async with spooling(tmp_path, limit=500) as process:
        process.log.state = "away" if state == "away" else "not stored"
        found = await block(process.store, "one", "two", size=1000)
        assert found == (["undone"] if state == "away" else [])
        assert failures_of(process.store) == {"atomic": 1}
        assert process.counts == (0, 0, 0, 2)


async def test_a_block_that_the_log_refuses_is_undone(tmp_path: Path) -> None:
    async with spooling(tmp_path) as process:
        process.log.refused = {"a"}
        assert await block(process.store, "one", "two") == ["undone"]
        assert failures_of(process.store) == {"atomic": 1}


@pytest.mark.parametrize("state", ["up", "away"])
async def test_a_block_on_several_shards_is_the_programs_mistake(
    tmp_path: Path, state: str
) -> None:
    log = FlakyLog(foldlog.memory_store(shards=8)._core.namespace)
    async with spooling(tmp_path, log) as process:
        log.state = "up" if state == "up" else "away"
        one, two = of_two_shards(process)
        assert await block(process.store, one, two) == ["undone", "Misuse"]
        assert failures_of(process.store) == {}
        assert (process.counts, files(tmp_path), log.calls) == ((0, 0, 0, 0), [], [])


def of_two_shards(process: Spooling) -> tuple[str, str]:
    """Two sessions whose updates live on different shards."""
    subject = process.log.namespace.subject
    names = [f"session-{n}" for n in range(50)]
    first = names[0]
    shard = subject("updates", first).shard
    return first, next(name for name in names if subject("updates", name).shard != shard)
