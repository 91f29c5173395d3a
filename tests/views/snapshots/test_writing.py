"""Who writes snapshots: when, at what price, and what becomes of it when they cannot."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from foldlog.errors import AppendFailed, LogUnavailable
from foldlog.log.side import MemorySide
from foldlog.log.snapshots import SnapshotStore
from foldlog.subjects import Subject
from foldlog.views import Views, snapshots as snapshots_module
from foldlog_projections.items import PAGE
from tests.support.beside import MemorySnapshots
from tests.views.snapshots.conftest import LONG, CountingLog, latest, save_long, snapshot_of
from tests.views.support import read, save, subject


class Failing(MemorySide):
    """Stores so many pieces, and then no more."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    async def put(self, messages: Sequence[tuple[str, bytes]], *, ttl: int | None = None) -> bool:
        if self.times == 0:
            raise LogUnavailable("away")
        self.times -= 1
        return await super().put(messages, ttl=ttl)


@pytest.mark.parametrize("times", range(6))
async def test_a_writer_that_is_cut_off_leaves_an_old_snapshot_or_none(
    log: CountingLog, times: int, caplog: pytest.LogCaptureFixture
) -> None:
    side = Failing(100)
    store = SnapshotStore(side, log.namespace, lambda shard: "memory")
    ids = await save_long(log)
    await snapshot_of(log, store)
    ids += await save_long(log, 4 * PAGE, first=len(ids))
    side.times = times
    await snapshot_of(log, store)
    side.times = 0
    views = Views(log, store)
    assert await latest(views, 1) == ids[-1:]
    assert await read(views) == ids
    await views.close()
    assert caplog.records == []


async def test_all_writing_together_is_linear_in_the_length_of_a_view(
    log: CountingLog, store: MemorySnapshots
) -> None:
    written: list[int] = []
    unhindered = store.put

    async def noted(subject: Subject, name: str, data: bytes) -> None:
        written.append(len(data))
        await unhindered(subject, name, data)

    store.put = noted  # type: ignore[method-assign]
    for first in range(0, 64 * PAGE, PAGE // 2):
        await save_long(log, PAGE // 2, first=first)
        await snapshot_of(log, store)
    assert len(written) < 40
    assert sum(written) < 12 * written[-1]


async def test_two_who_write_at_the_same_time_leave_the_snapshot_of_one(
    log: CountingLog, store: MemorySnapshots
) -> None:
    one, other = b"a" * 5_000, b"b" * 4_000
    await asyncio.gather(
        store.put(subject(), "updates", one), store.put(subject(), "updates", other)
    )
    assert await store.get(subject(), "updates") in (one, other)


async def test_a_smaller_snapshot_leaves_no_piece_of_a_larger_one(
    log: CountingLog, store: MemorySnapshots
) -> None:
    size = store._side.max_bytes
    for pieces in (5, 1, 3, 2):
        await store.put(subject(), "updates", b"x" * (pieces * (size - 20)))
        assert len(store.stored) == pieces
        assert await store.get(subject(), "updates") == b"x" * (pieces * (size - 20))


async def test_nobody_waits_for_a_snapshot(
    log: CountingLog, store: MemorySnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots_module, "CLOSING_SECONDS", 0.01)
    never = asyncio.Event()

    async def stuck(subject: Subject, name: str, data: bytes) -> None:
        await never.wait()

    store.put = stuck  # type: ignore[method-assign]
    ids = await save_long(log)
    views = Views(log, store)
    assert await read(views) == ids
    await save(log, "new")
    assert await read(views, "strong") == [*ids, "new"]
    await views.close()
    assert store.stored == {}


async def test_a_hot_view_is_snapshot_as_it_grows(log: CountingLog, store: MemorySnapshots) -> None:
    views = Views(log, store)
    await read(views)
    ids = await save_long(log)
    await views.close()
    views = Views(log, store)
    log.read_envelopes = 0
    assert await latest(views, 1) == ids[-1:]
    assert log.read_envelopes < LONG
    await views.close()


async def test_what_is_too_large_is_not_kept_nor_tried_before_it_has_doubled(
    log: CountingLog,
    store: MemorySnapshots,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(snapshots_module, "MOST_BYTES", 100)
    tried = asyncio.Semaphore(0)
    unhindered = store.identity

    async def noted(subject: Subject) -> str:
        tried.release()
        return await unhindered(subject)

    store.identity = noted  # type: ignore[method-assign]
    ids = await save_long(log)
    views = Views(log, store)
    assert await read(views) == ids
    await tried.acquire()
    ids += await save_long(log, LONG, first=LONG)
    assert await read(views) == ids
    await views.close()
    assert tried.locked()
    assert store.stored == {}
    assert "at most 100 are kept" in caplog.text


async def test_a_store_that_closes_waits_for_no_rest(
    log: CountingLog, store: MemorySnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots_module, "_SHARE", 1e-12)
    views = Views(log, store)
    for key in ("a", "b"):
        for n in range(LONG):
            await save(log, f"{n}", key=key)
        await read(views, key=key)
    await views.close()
    assert [await store.holds(subject(key)) for key in "ab"] == [True, True]


async def test_a_store_that_refuses_is_reported_once(
    log: CountingLog, store: MemorySnapshots, caplog: pytest.LogCaptureFixture
) -> None:
    async def refused(subject: Subject, name: str, data: bytes) -> None:
        raise AppendFailed("no more streams for this account")

    store.put = refused  # type: ignore[method-assign]
    views = Views(log, store)
    for first in (0, LONG):
        await save_long(log, first=first)
        await read(views)
        await asyncio.sleep(0)
    await views.close()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_a_store_that_does_not_answer_is_done_without(
    log: CountingLog, store: MemorySnapshots
) -> None:
    ids = await save_long(log)

    async def away(subject: Subject, name: str) -> Any:
        raise LogUnavailable("away")

    store.get = away  # type: ignore[method-assign]
    views = Views(log, store)
    assert await read(views) == ids
    await views.close()
