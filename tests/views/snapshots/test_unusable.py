"""A snapshot that is not of this log, or not whole, has no effect and is replaced."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from foldlog.errors import LogCorrupt, LogRewound
from foldlog.log.port import Append
from foldlog.subjects import Subject
from foldlog.upcasting import UPCASTERS
from foldlog.views import Views, snapshots as snapshots_module
from foldlog_projections.items import PAGE
from foldlog_projections.updates import kind as updates
from tests.support.beside import MemorySnapshots
from tests.support.tombstones import tombstone
from tests.views.snapshots.conftest import LONG, CountingLog, latest, save_long, snapshot_of
from tests.views.support import Log, read, save, subject


def replace(store: MemorySnapshots, where: str, data: bytes) -> None:
    """Have other bytes stand there."""
    store.stored[where] = msgspec.structs.replace(store.stored[where], data=data)


@pytest.mark.parametrize("changed", ["version", "payloads", "log"])
async def test_a_snapshot_of_another_version_or_log_is_ignored_and_replaced(
    log: CountingLog,
    store: MemorySnapshots,
    changed: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ids = await save_long(log)
    await snapshot_of(log, store)
    match changed:
        case "version":
            monkeypatch.setattr(updates, "version", updates.version + 1)
        case "payloads":
            monkeypatch.setitem(UPCASTERS.newest, "test.newer", 2)
        case _:
            store._identity = lambda shard: "another"
    for expected in (LONG, 2 * PAGE):
        views = Views(log, store)
        log.read_envelopes = 0
        assert await latest(views, 1) == ids[-1:]
        assert (log.read_envelopes >= LONG) == (expected == LONG)
        await views.close()
    assert caplog.records == []


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
async def test_a_damaged_snapshot_is_ignored_reported_once_and_replaced(
    log: CountingLog,
    store: MemorySnapshots,
    number: int,
    damage: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ids = await save_long(log)
    await snapshot_of(log, store)
    where = sorted(store.stored)[number]
    data = bytearray(store.stored[where].data)
    data[len(data) // 2] ^= 1
    if damage == "gone":
        del store.stored[where]
    else:
        replace(store, where, bytes(data) if damage == "flipped" else bytes(data[:-1]))
    views = Views(log, store)
    for _ in range(2):
        await views.drop()
        assert await read(views) == ids
    await views.close()
    quiet = number == 0 and damage == "gone"
    assert len(caplog.records) == (0 if quiet else 1)
    log.read_envelopes = 0
    views = Views(log, store)
    assert await latest(views, 1) == ids[-1:]
    assert log.read_envelopes < LONG
    await views.close()


async def test_an_id_that_was_changed_in_a_snapshot_is_noticed(
    log: CountingLog, store: MemorySnapshots
) -> None:
    ids = await save_long(log)
    await snapshot_of(log, store)
    [where] = [name for name, stored in store.stored.items() if b"0003" in stored.data]
    replace(store, where, store.stored[where].data.replace(b"0003", b"0xx3"))
    await save(log, "0003", "new")
    views = Views(log, store)
    assert await latest(views, 2) == [ids[-1], "new"]
    await views.close()


async def test_a_snapshot_of_what_the_log_no_longer_holds_tells_that_it_was_rewound(
    log: CountingLog, store: MemorySnapshots
) -> None:
    ids = await save_long(log)
    await snapshot_of(log, store)
    log.restore(subject(), 2 * PAGE + 5)
    for _ in range(2):
        views = Views(log, store)
        with pytest.raises(LogRewound) as rewound:
            await read(views)
        assert rewound.value.sequence > 2 * PAGE + 5
        await views.close()
    views = Views(log, store)
    await views.drop_snapshots()
    assert await read(views) == ids[: 2 * PAGE + 5]
    await views.close()
    new = [f"new{n}" for n in range(LONG)]
    for id in new:
        await save(log, id)
    views = Views(log, store)
    assert await read(views) == ids[: 2 * PAGE + 5] + new
    await views.close()


async def test_a_record_that_the_snapshot_knows_and_the_log_does_not_is_missed(
    log: CountingLog, store: MemorySnapshots
) -> None:
    ids = await save_long(log)
    await snapshot_of(log, store)
    del log._stored[subject()][7]  # a message in the middle is gone
    views = Views(log, store)
    assert await latest(views, 1) == ids[-1:]
    for _ in range(2):
        with pytest.raises(LogCorrupt, match="not what its snapshot says"):
            await read(views)
    await views.close()


async def clear(log: Log, views: Views, *, purge: bool = True) -> None:
    _, head = await views.read_at(updates, subject())
    await log.append([Append(subject(), (tombstone(id=f"c{head}"),), head)], atomic=True)
    if purge:
        await log.purge(subject(), before=head + 1)


@pytest.mark.parametrize("purge", [True, False])
async def test_a_snapshot_that_is_older_than_a_clearing_is_removed_by_who_meets_it(
    log: CountingLog, store: MemorySnapshots, purge: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await save_long(log)
    await snapshot_of(log, store)
    monkeypatch.setattr(snapshots_module, "DUE_ENVELOPES", 100 * LONG)
    views = Views(log)
    await clear(log, views, purge=purge)
    await save(log, ids[0])
    new = await save_long(log, first=len(ids))
    views = Views(log, store)
    assert await read(views) == [ids[0], *new]  # the tombstone names no writer
    await views.close()
    assert store.stored == {}


async def test_a_clearing_while_a_snapshot_is_written_leaves_none(
    log: CountingLog, store: MemorySnapshots
) -> None:
    await save_long(log)
    writing, go = asyncio.Event(), asyncio.Event()
    unhindered = store.put

    async def slow(subject: Subject, name: str, data: bytes) -> None:
        writing.set()
        await go.wait()
        await unhindered(subject, name, data)

    store.put = slow  # type: ignore[method-assign]
    views = Views(log, store)
    await read(views)
    await writing.wait()
    other = Views(log)
    await clear(log, other)
    await store.purge(subject())
    go.set()
    await views.close()
    assert store.stored == {}
