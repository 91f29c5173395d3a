"""Snapshots of short views whose records lie far apart: they hold what the log is slow to give."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from foldlog.envelope import CLEARED, Recorded, draft
from foldlog.log.port import Append
from foldlog.log.snapshots import MemorySnapshots
from foldlog.views import Views, snapshot, snapshots
from foldlog_projections import tasks, updates
from foldlog_projections.fold import clearing
from foldlog_projections.items import PAGE, Items
from tests.views.snapshots.conftest import CountingLog, latest, snapshot_of
from tests.views.support import Log, read, save, subject

SPAN = 50
_BETWEEN = 9


@pytest.fixture(autouse=True)
def sparse(monkeypatch: pytest.MonkeyPatch, store: MemorySnapshots) -> None:
    """A log that is long enough for its sequences to tell of blocks, and small snapshots."""
    monkeypatch.setattr(snapshot, "DUE_SPAN", SPAN)
    store.reached = SPAN + 1


async def save_spread(log: Log, count: int, first: int = 0, *, size: int = 1) -> list[str]:
    """Save records between each two of which others lie."""
    ids = [f"{n:04}" for n in range(first, first + count)]
    for id in ids:
        await save(log, id, task=f"t{int(id) % 3}", size=size)
        for n in range(_BETWEEN):
            await save(log, f"{id}-{n}", key="other")
    return ids


async def opened(log: CountingLog, store: MemorySnapshots) -> tuple[list[str], int]:
    """What a new process reads, and how many envelopes it reads of the log for that."""
    views = Views(log, store)
    log.read_envelopes = 0
    found = await read(views)
    await views.close()
    return found, log.read_envelopes


async def clear(log: Log) -> None:
    where = subject()
    folded, head = await Views(log).read_at(updates, where)
    drafts = tuple(draft(CLEARED, body, id=f"c{head}") for body in clearing(folded))
    await log.append([Append(where, drafts, head)], atomic=True)
    await log.purge(where, before=head + 1)


@pytest.mark.parametrize("count", [6, 20, PAGE - 1])
async def test_a_short_view_that_is_spread_is_opened_from_its_snapshot(
    log: CountingLog, store: MemorySnapshots, count: int
) -> None:
    ids = await save_spread(log, count)
    await snapshot_of(log, store)
    assert await opened(log, store) == (ids, 1)
    ids += await save_spread(log, 3, first=count)
    assert await opened(log, store) == (ids, 4)


@pytest.mark.parametrize("count", [PAGE, PAGE + 1, 3 * PAGE, 3 * PAGE + 5])
async def test_so_is_a_longer_one(log: CountingLog, store: MemorySnapshots, count: int) -> None:
    ids = await save_spread(log, count)
    await snapshot_of(log, store)
    assert await opened(log, store) == (ids, 1)
    ids += await save_spread(log, SPAN, first=count)
    await snapshot_of(log, store)
    assert await opened(log, store) == (ids, 1)


async def test_of_a_large_one_the_latest_pages_are_kept(
    log: CountingLog, store: MemorySnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "CONTENT_BYTES", 2 * PAGE * 300)
    ids = await save_spread(log, 4 * PAGE + 10, size=100)
    await snapshot_of(log, store)
    views = Views(log, store)
    log.read_envelopes = 0
    assert await latest(views, PAGE) == ids[-PAGE:]
    assert log.read_envelopes == 1
    assert await read(views) == ids
    await views.close()


async def test_what_is_too_large_for_a_head_is_left_to_the_log_and_tried_no_more(
    log: CountingLog, store: MemorySnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "CONTENT_BYTES", 100)
    ids = await save_spread(log, 20, size=100)
    assert await opened(log, store) == (ids, 20)
    assert store.stored == {}
    ids += await save_spread(log, PAGE, first=20, size=100)
    await snapshot_of(log, store)
    written = dict(store.stored)
    assert written
    views = Views(log, store)
    ids += await save_spread(log, 10, first=len(ids), size=100)
    assert await read(views) == ids
    await views.close()
    assert store.stored == written


async def test_a_dense_view_has_none(log: CountingLog, store: MemorySnapshots) -> None:
    for n in range(SPAN - 1):
        await save(log, f"{n}")
    await snapshot_of(log, store)
    assert store.stored == {}


async def test_nobody_asks_first_in_a_short_log(log: CountingLog, store: MemorySnapshots) -> None:
    store.reached = SPAN
    ids = await save_spread(log, 20)
    await snapshot_of(log, store)
    found, read_of_log = await opened(log, store)
    assert found == ids
    assert read_of_log >= 20


async def test_in_a_long_log_a_view_without_a_snapshot_costs_one_question(
    log: CountingLog, store: MemorySnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    get, asked = store.get, 0

    async def counted(*what: Any) -> list[bytes | None]:
        nonlocal asked
        asked += 1
        return await get(*what)

    monkeypatch.setattr(store, "get", counted)
    await save(log, "a")
    assert await opened(log, store) == (["a"], 1)
    assert asked == 1


async def test_a_view_that_stays_hot_is_kept_as_it_spreads(
    log: CountingLog, store: MemorySnapshots
) -> None:
    views = Views(log, store)
    ids: list[str] = []
    for _ in range(4):
        ids += await save_spread(log, 10, first=len(ids))
        assert await read(views) == ids
    await views.close()
    found, read_of_log = await opened(log, store)
    assert found == ids
    assert read_of_log <= 1 + SPAN // (_BETWEEN + 1)


async def test_a_fold_that_is_no_sequence_is_kept_too(
    log: CountingLog, store: MemorySnapshots
) -> None:
    where = log.namespace.subject("tasks", "s")
    for n in range(20):
        body = msgspec.msgpack.encode({"task_id": f"t{n}"})
        await log.append([Append(where, (draft("task.saved", body, id=f"{n}"),))])
        await save_spread(log, 1, first=n)
    for most in (21, 1):  # the first also looks whether the log still begins as it did
        views = Views(log, store)
        log.read_envelopes = 0
        assert len((await views.read(tasks, where, "strong")).state) == 20
        await views.close()
        assert log.read_envelopes == most


async def test_what_was_cleared_does_not_come_back(
    log: CountingLog, store: MemorySnapshots
) -> None:
    ids = await save_spread(log, 20)
    await snapshot_of(log, store)
    assert store.stored
    await clear(log)
    assert (await opened(log, store))[0] == []
    await save(log, ids[0], "new")
    assert (await opened(log, store))[0] == ["new"]


async def test_one_record_after_a_long_gap_is_enough(
    log: CountingLog, store: MemorySnapshots
) -> None:
    ids = await save_spread(log, 10)
    await snapshot_of(log, store)
    for n in range(SPAN):
        await save(log, f"gap {n}", key="other")
    ids += [f"{len(ids):04}"]
    await save(log, ids[-1])
    await snapshot_of(log, store)
    assert await opened(log, store) == (ids, 1)


async def test_what_is_restored_takes_as_much_memory_as_what_was_read(
    log: CountingLog, store: MemorySnapshots
) -> None:
    await save_spread(log, 2 * PAGE + 20, size=50)
    takes = []
    for _ in range(2):
        views = Views(log, store)
        await read(views)
        view = views.peek(updates, subject())
        assert view is not None
        takes.append(view.bytes)
        await views.close()
    assert takes[0] == takes[1]


async def test_pages_behind_an_absent_one_are_not_taken() -> None:
    log = Log()
    await save(log, *(f"{n}" for n in range(3 * PAGE)))
    folded = await Views(log).read(updates, subject(), "strong")
    whole = list(folded.state)
    items = Items(folded.state.marks)
    assert items.newest(10**6) == []
    items.fill(0, whole[:PAGE])
    items.fill(2, whole[2 * PAGE :])
    assert items.newest(10**6) == whole[2 * PAGE :]
    items.extend(whole[:5])
    assert items.newest(10**6) == [*whole[2 * PAGE :], *whole[:5]]
    assert items.newest(5 * (len(whole[0].payload) + 120)) == whole[:5]
    assert items.newest(5 * len(whole[0].payload)) == []


@pytest.mark.parametrize("size", [1, 100], ids=["held", "too large to be held"])
async def test_what_comes_after_a_clearing_is_whole(
    log: CountingLog, store: MemorySnapshots, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(snapshot, "CONTENT_BYTES", 20 * 150)
    await save_spread(log, 3)
    await clear(log)
    ids = await save_spread(log, 20, first=100, size=size)
    for _ in range(3):
        assert (await opened(log, store))[0] == ids
    assert bool(store.stored) == (size == 1)


async def test_a_cleared_view_that_fills_no_page_has_no_snapshot_of_nothing(
    log: CountingLog, store: MemorySnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the rule of size alone: a clearing is none of the envelopes that it counts."""
    monkeypatch.setattr(snapshot, "DUE_SPAN", 100 * PAGE)
    monkeypatch.setattr(snapshot, "DUE_BYTES", PAGE)
    monkeypatch.setattr(snapshot, "DUE_ENVELOPES", 10 * PAGE)
    await save(log, "before")
    await clear(log)
    views = Views(log, store)
    ids = [f"{n:04}" for n in range(PAGE - 1)]
    for id in ids:
        await save(log, id)
        await read(views)
    await views.close()
    assert store.stored == {}
    store.reached = 1000 * PAGE
    assert (await opened(log, store))[0] == ids


async def test_a_late_writer_far_behind_a_clearing_leaves_the_writing_of_others_alone(
    log: CountingLog, store: MemorySnapshots
) -> None:
    await save_spread(log, 3)
    await clear(log)
    for n in range(SPAN):
        await save(log, f"gap {n}", key="between")
    await save(log, "0000")  # refused: it was cleared
    views = Views(log, store)
    assert await read(views) == []
    assert len(await read(views, key="between")) == SPAN
    await save(log, "last", key="between")
    assert len(await read(views, key="between")) == SPAN + 1
    await views.close()
    assert {key[0].keys[0] for key in store.stored} == {"between"}


async def test_a_view_of_large_envelopes_is_kept_by_its_full_pages(
    log: CountingLog, store: MemorySnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "CONTENT_BYTES", 100)
    monkeypatch.setattr(snapshots, "_SHARE", 1.0)
    views = Views(log, store)
    ids: list[str] = []
    for _ in range(5 * PAGE):
        ids += await save_spread(log, 1, first=len(ids), size=150)
        await read(views)
    await views.close()
    _, read_of_log = await opened_to_its_end(log, store)
    assert read_of_log <= 2 * PAGE


async def opened_to_its_end(log: CountingLog, store: MemorySnapshots) -> tuple[list[str], int]:
    views = Views(log, store)
    log.read_envelopes = 0
    found = await latest(views, 1)
    await views.close()
    return found, log.read_envelopes


async def test_one_whose_content_and_ids_differ_is_not_used(
    log: CountingLog, store: MemorySnapshots
) -> None:
    ids = await save_spread(log, 20)
    views = Views(log, store)
    await read(views)
    view = views.peek(updates, subject())
    assert view is not None
    del view.folded.seen[ids[3]]  # before the snapshot is written behind the reader's back
    await views.close()
    assert store.stored
    assert (await opened(log, store))[0] == ids


async def test_a_fold_that_cannot_be_kept_is_not_written(
    log: CountingLog, store: MemorySnapshots
) -> None:
    class Count:
        name, version, latest_only = "updates", 1, False

        def initial(self) -> int:
            return 0

        def apply(self, state: int, envelope: Recorded, /) -> int:
            return state + 1

    await save_spread(log, 20)
    views = Views(log, store)
    assert (await views.read(Count(), subject(), "strong")).state == 20
    await views.close()
    assert store.stored == {}
