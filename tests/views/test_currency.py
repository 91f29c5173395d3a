"""What counts as current, and what memory the views take, when nobody reads them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import msgspec
import pytest

import foldlog
from foldlog import StateUpdate, UpdateType, memory_store
from foldlog.envelope import draft
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Append
from foldlog.views import Views, watching
from foldlog.views.view import EMPTY_BYTES
from foldlog_projections.updates import kind as updates
from tests.support.tombstones import tombstone
from tests.views.support import Log, dropped, is_hot, read, save, subject


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_only_a_current_view_spares_an_append() -> None:
    log = Log()
    store = memory_store(log=log)
    views, subject_ = store._core.hot_views, subject()
    payload = msgspec.msgpack.encode({"task_id": "t", "content": b"x"})
    one = (subject_, [draft("x", payload, id="1")])
    where = await save(log, "1")
    await read(views)
    await store._core.append_drafts(one)
    assert log._heads[0] == where
    log.missed += 1  # another store may have cleared it meanwhile
    assert views.current(subject()) is None
    await store._core.append_drafts(one)
    assert log._heads[0] == where + 1
    await read(views)
    assert views.current(subject()) is not None
    views.acked(subject(), 99)
    assert views.current(subject()) is None
    await store.close()


async def test_what_pushes_bring_is_evicted_without_a_read() -> None:
    log = Log()
    views = Views(log, max_hot_bytes=3 * EMPTY_BYTES)
    for key in ("a", "b"):
        await read(views, key=key)
    await save(log, "1", key="a", size=10 * EMPTY_BYTES)
    await turns()
    assert not is_hot(views, subject("a"))
    assert log.followed <= 1
    await views.close()
    assert log.followed == 0


async def test_what_is_watched_drives_nobody_out() -> None:
    log = Log()
    views = Views(log, max_hot_bytes=4 * EMPTY_BYTES)
    await save(log, "1", key="watched", size=50 * EMPTY_BYTES)
    async with aclosing(watching.watch(views, updates, subject("watched"), None)) as items:
        assert (await anext(items)).id == "1"
        for key in ("a", "b"):
            await read(views, key=key)
        reads = log.reads
        for key in ("a", "b", "a", "b"):
            await read(views, key=key)
        assert log.reads == reads
    await read(views, key="a")
    assert not is_hot(views, subject("watched"))
    await views.close()


async def test_what_was_cleared_is_counted() -> None:
    log = Log()
    views = Views(log)
    removed = {f"writer {n}": n for n in range(1000)}
    await log.append([Append(subject(), (tombstone(removed=removed),))])
    await read(views)
    assert views._hot.bytes > EMPTY_BYTES + 1000 * 50
    await views.close()


async def test_a_view_that_is_evicted_waits_for_no_snapshot() -> None:
    log = Log()
    views = Views(log, snapshots=log.snapshots, max_hot_bytes=EMPTY_BYTES)
    for key in ("a", "b", "c", "d"):
        await save(log, *(f"{n}" for n in range(1100)), key=key)
        await read(views, key=key)
    assert views.snapshots is not None
    assert len(views.snapshots._waiting) <= 1
    log.push = dropped
    await views.close()


def test_a_log_in_memory_serves_one_event_loop_after_another() -> None:
    log = MemoryLog()

    async def fill(start: int) -> int:
        async with foldlog.memory_store(log=log) as store:
            for n in range(start, start + 1100):
                update = StateUpdate(
                    session_id="s",
                    task_id="t",
                    update_id=f"{n}",
                    update_type=UpdateType.RESULT,
                    content={},
                )
                await store.save_update(update)
            return len(await store.list_updates("s", limit=10_000))

    assert asyncio.run(fill(0)) == 1100
    assert asyncio.run(fill(1100)) == 2200


@pytest.mark.parametrize("times", [2])
def test_a_store_in_memory_serves_one_event_loop_after_another(times: int) -> None:
    store = foldlog.memory_store()

    async def fill(start: int) -> int:
        for n in range(start, start + 1100):
            update = StateUpdate(
                session_id="s",
                task_id="t",
                update_id=f"{n}",
                update_type=UpdateType.RESULT,
                content={},
            )
            await store.save_update(update)
        return len(await store.list_updates("s", limit=10_000))

    for turn in range(times):
        assert asyncio.run(fill(1100 * turn)) == 1100 * (turn + 1)
    asyncio.run(store.close())
