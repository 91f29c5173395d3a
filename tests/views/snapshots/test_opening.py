"""Opened from a snapshot, a view reads what it needs of the log, and no more."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from foldlog.views import Views, watching
from foldlog_projections.fold import Folded
from foldlog_projections.items import PAGE, Items
from foldlog_projections.updates import kind as updates
from tests.support.beside import MemorySnapshots
from tests.views.snapshots.conftest import CountingLog, latest, save_long, snapshot_of
from tests.views.support import read, save, subject


async def test_a_long_view_is_opened_without_reading_its_log(
    log: CountingLog, store: MemorySnapshots
) -> None:
    ids = await save_long(log, 20 * PAGE)
    await snapshot_of(log, store)
    ids += await save_long(log, 5, first=len(ids))
    views = Views(log, store)
    log.read_envelopes = 0
    assert await latest(views, 10) == ids[-10:]
    assert log.read_envelopes <= 4 * PAGE
    log.read_envelopes = 0
    since = await views.select(
        updates,
        subject(),
        "session",
        lambda folded: folded.state.after(folded.seen[ids[PAGE]], 10, "t1"),
    )
    assert [item.id for item in since] == [id for id in ids[PAGE + 1 :] if int(id) % 3 == 1][:10]
    assert log.read_envelopes <= 2 * PAGE
    assert await read(views) == ids
    await views.close()


async def test_what_a_snapshot_covers_has_no_second_effect(
    log: CountingLog, store: MemorySnapshots
) -> None:
    ids = await save_long(log)
    await snapshot_of(log, store)
    await save(log, ids[0], ids[PAGE], "new", ids[-1])
    views = Views(log, store)
    assert await latest(views, 2) == [ids[-1], "new"]
    assert await read(views) == [*ids, "new"]
    await views.close()


async def test_readers_of_absent_pages_share_their_loading(
    log: CountingLog, store: MemorySnapshots
) -> None:
    ids = await save_long(log, 8 * PAGE)
    await snapshot_of(log, store)
    views = Views(log, store)
    await latest(views, 1)
    log.read_envelopes = 0
    found = await asyncio.gather(*(read(views) for _ in range(5)))
    assert found == [ids] * 5
    assert log.read_envelopes <= len(ids)
    await views.close()


async def test_a_watcher_sees_what_is_absent(log: CountingLog, store: MemorySnapshots) -> None:
    ids = await save_long(log)
    await snapshot_of(log, store)
    views = Views(log, store)
    await latest(views, 1)
    async with aclosing(watching.watch(views, updates, subject(), ids[3])) as items:
        seen = [(await anext(items)).id for _ in ids[4:]]
        await save(log, "new")
        assert (await anext(items)).id == "new"
    assert seen == ids[4:]
    await views.close()


def test_choosing_asks_indexes_alone() -> None:
    items = Items(range(0, 10 * PAGE, PAGE))
    folded = Folded(items)
    assert list(folded.state.latest(3)) == [10 * PAGE - 3, 10 * PAGE - 2, 10 * PAGE - 1]
    assert items.missing(folded.state.latest(PAGE + 1)) == [8, 9]
    assert items.missing(range(0)) == []


async def test_readers_of_overlapping_pages_load_each_once(
    log: CountingLog, store: MemorySnapshots
) -> None:
    ids = await save_long(log, 8 * PAGE)
    await snapshot_of(log, store)
    views = Views(log, store)
    await latest(views, 1)
    log.read_envelopes = 0
    found = await asyncio.gather(
        latest(views, 3 * PAGE), latest(views, 5 * PAGE), latest(views, 2), latest(views, 4 * PAGE)
    )
    assert found == [ids[-3 * PAGE :], ids[-5 * PAGE :], ids[-2:], ids[-4 * PAGE :]]
    assert log.read_envelopes <= 8 * PAGE
    assert await read(views) == ids
    await views.close()
