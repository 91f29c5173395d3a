"""Snapshots: whatever becomes of them, a view is the fold of its log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldlog.envelope import CLEARED, Recorded, draft
from foldlog.errors import AppendFailed, LogCorrupt, LogRewound, LogUnavailable
from foldlog.log import memory as memory_module
from foldlog.log.port import Append
from foldlog.log.snapshots import MemorySnapshots
from foldlog.subjects import Subject
from foldlog.upcasting import UPCASTERS
from foldlog.views import Views, refold, snapshot
from foldlog.views import snapshots as snapshots_module
from foldlog_projections import updates
from foldlog_projections.fold import Folded, clearing
from foldlog_projections.items import PAGE, Items
from foldlog_projections.registry import PROJECTIONS
from tests.views.support import Log, dropped, read, save, subject

LONG = 3 * PAGE + 10
KEPT = [projection for projection in PROJECTIONS if not projection.latest_only]


class CountingLog(Log):
    """A log that counts the envelopes it is read for."""

    def __init__(self) -> None:
        super().__init__()
        self.read_envelopes = 0

    async def read(self, subject: Subject, *, after: int = 0, strong: bool = True) -> Any:
        async with aclosing(super().read(subject, after=after, strong=strong)) as pages:
            async for records in pages:
                self.read_envelopes += sum(len(record.envelopes) for record in records)
                yield records


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Snapshots of short folds, in several parts, of a log that is read in short pages."""
    with small_sizes(monkeypatch):
        yield


def small_sizes(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(snapshot, "DUE_ENVELOPES", PAGE)
    monkeypatch.setattr(snapshot, "PART_BYTES", 2 * PAGE)
    monkeypatch.setattr(memory_module, "_PAGE", PAGE)
    return monkeypatch.context()


@pytest.fixture
def log() -> CountingLog:
    return CountingLog()


@pytest.fixture
def store() -> MemorySnapshots:
    return MemorySnapshots()


async def save_long(log: Log, count: int = LONG, first: int = 0) -> list[str]:
    ids = [f"{n:04}" for n in range(first, first + count)]
    for id in ids:
        await save(log, id, task=f"t{int(id) % 3}")
    return ids


async def snapshot_of(log: Log, store: MemorySnapshots) -> None:
    """Have a process read the view and end: what it wrote stays."""
    views = Views(log, store)
    await read(views)
    await views.close()


async def latest(views: Views, limit: int) -> list[str]:
    found = await views.select(
        updates, subject(), "session", lambda folded: folded.state.latest(limit)
    )
    return [item.id for item in found]


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
    async with aclosing(views.watch(updates, subject(), ids[3])) as items:
        seen = [(await anext(items)).id for _ in ids[4:]]
        await save(log, "new")
        assert (await anext(items)).id == "new"
    assert seen == ids[4:]
    await views.close()


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
            store._identity = "another"
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
    data = bytearray(store.stored[subject(), number])
    data[len(data) // 2] ^= 1
    if damage == "gone":
        del store.stored[subject(), number]
    else:
        store.stored[subject(), number] = bytes(data) if damage == "flipped" else bytes(data[:-1])
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
    part = store.stored[subject(), 1]
    assert b"0003" in part
    store.stored[subject(), 1] = part.replace(b"0003", b"0xx3")
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


class Failing(MemorySnapshots):
    """Stores so many times, and then no more."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    async def put(self, subject: Subject, number: int, data: bytes, edition: str = "") -> None:
        if self.times == 0:
            raise LogUnavailable("away")
        self.times -= 1
        await super().put(subject, number, data, edition)


@pytest.mark.parametrize("times", range(6))
async def test_a_writer_that_is_cut_off_leaves_an_old_snapshot_or_none(
    log: CountingLog, times: int, caplog: pytest.LogCaptureFixture
) -> None:
    store = Failing(100)
    ids = await save_long(log)
    await snapshot_of(log, store)
    ids += await save_long(log, 4 * PAGE, first=len(ids))
    store.times = times
    await snapshot_of(log, store)
    store.times = 0
    views = Views(log, store)
    log.read_envelopes = 0
    assert await latest(views, 1) == ids[-1:]
    assert log.read_envelopes < len(ids)
    assert await read(views) == ids
    await views.close()
    assert caplog.records == []


async def test_a_snapshot_costs_what_is_new(log: CountingLog, store: MemorySnapshots) -> None:
    put: list[int] = []
    unhindered = store.put

    async def noted(subject: Subject, number: int, data: bytes, edition: str) -> None:
        put.append(number)
        await unhindered(subject, number, data, edition)

    store.put = noted  # type: ignore[method-assign]
    ids = await save_long(log, 8 * PAGE)
    await snapshot_of(log, store)
    first = sorted(put)
    assert first == list(range(len(first)))
    put.clear()
    await save_long(log, 2 * PAGE, first=len(ids))
    await snapshot_of(log, store)
    assert put
    assert len(put) < len(first)


async def test_nobody_waits_for_a_snapshot(
    log: CountingLog, store: MemorySnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots_module, "CLOSING_SECONDS", 0.01)
    never = asyncio.Event()

    async def stuck(subject: Subject, number: int, data: bytes, edition: str) -> None:
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


async def test_what_does_not_fit_a_message_is_not_kept_nor_tried_before_it_has_doubled(
    log: CountingLog, store: MemorySnapshots, caplog: pytest.LogCaptureFixture
) -> None:
    store.max_bytes = 100
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
    assert "a message holds 100" in caplog.text


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
    assert {where for where, _ in store.stored} == {subject("a"), subject("b")}


async def test_a_store_that_refuses_is_reported_once(
    log: CountingLog, store: MemorySnapshots, caplog: pytest.LogCaptureFixture
) -> None:
    async def refused(subject: Subject, number: int, data: bytes, edition: str) -> None:
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

    async def away(subject: Subject, numbers: Any, edition: str = "") -> Any:
        raise LogUnavailable("away")

    store.get = away  # type: ignore[method-assign]
    views = Views(log, store)
    assert await read(views) == ids
    await views.close()


async def clear(log: Log, views: Views, *, purge: bool = True) -> None:
    folded, head = await views.read_at(updates, subject())
    tombstone = tuple(draft(CLEARED, payload, id=f"c{head}") for payload in clearing(folded))
    await log.append([Append(subject(), tombstone, head)], atomic=True)
    if purge:
        await log.purge(subject(), before=head + 1)


@pytest.mark.parametrize("purge", [True, False])
async def test_a_snapshot_that_is_older_than_a_clearing_is_removed_by_who_meets_it(
    log: CountingLog, store: MemorySnapshots, purge: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await save_long(log)
    await snapshot_of(log, store)
    monkeypatch.setattr(snapshot, "DUE_ENVELOPES", 100 * LONG)
    views = Views(log)
    await clear(log, views, purge=purge)
    await save(log, ids[0])
    new = await save_long(log, first=len(ids))
    views = Views(log, store)
    assert await read(views) == new
    await views.close()
    assert store.stored == {}


async def test_a_clearing_while_a_snapshot_is_written_leaves_none(
    log: CountingLog, store: MemorySnapshots
) -> None:
    await save_long(log)
    writing, go = asyncio.Event(), asyncio.Event()
    unhindered = store.put

    async def slow(subject: Subject, number: int, data: bytes, edition: str) -> None:
        writing.set()
        await go.wait()
        await unhindered(subject, number, data, edition)

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


PAYLOADS: dict[str, Any] = {
    "lineage": lambda n: {"session_id": f"s{n % 5}", "position": f"@{n}"},
    "bindings": lambda n: {"context_id": None if n % 2 else "c", "task_id": f"t{n % 5}"},
    "routes": lambda n: {"trace_id": f"x{n % 5}", "context_id": None, "task_id": "t"},
    "tasks": lambda n: {"task_id": f"t{n % 7}", "n": n},
    "traces": lambda n: {"trace_id": f"t{n % 7}", "content": f"{n}"},
    "artifacts": lambda n: {"artifact_id": f"a{n % 9}", "sha256": "", "size_bytes": n, "source": n},
    "pauses": lambda n: n,
    "scopes": lambda n: {"key": f"k{n % 7}", "size": n},
    "session": lambda n: {"event_id": f"e{n % 9}", "worker": f"w{n}"},
    "agentlist": lambda n: {"scope": f"a/{n % 5}"},
    "agentstates": lambda n: {"changes": [{"key": f"k{n % 3}", "delta": [0, {"n": n}]}]},
    "statecontents": lambda n: {"artifact_id": f"a{n % 5}", "blob": f"{n}"},
    "statelist": lambda n: {"state_id": f"s{n % 5}", "status": f"{n}"},
    "states": lambda n: {"delta": [0, {f"k{n % 3}": n}]},
}
TYPES = {
    "lineage": ["session.began", "session.forked", "fork.ended", "session.cleared"],
    "bindings": ["binding.saved", "binding.terminal"],
    "artifacts": ["artifact.saved"],
    "pauses": ["pause.saved", "pause.consumed"],
    "scopes": ["scope.written", "scope.deleted"],
    "session": ["steering.acknowledged"],
}


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_whatever_is_kept_a_view_is_the_fold_of_its_log(data: st.DataObject) -> None:
    projection = data.draw(st.sampled_from(KEPT))
    steps = data.draw(
        st.lists(
            st.one_of(
                st.tuples(st.just("save"), st.integers(1, 2 * PAGE)),
                st.tuples(st.just("save"), st.integers(1, 3)),
                st.tuples(st.just("repeat"), st.integers(1, 20)),
                st.tuples(st.sampled_from(["restart", "read", "lose"]), st.just(0)),
                st.tuples(st.sampled_from(["clear", "forget"]), st.just(0)),
            ),
            max_size=14,
        )
    )
    if (begun := data.draw(st.integers(0, 4 * PAGE))) >= PAGE:
        steps = [("save", begun), ("read", 0), ("restart", 0), *steps]
    packed = data.draw(st.sampled_from([1, 7, PAGE, 1000]))

    async def run() -> None:
        log, store, number = Log(), MemorySnapshots(), 0
        where = log.namespace.subject(projection.name, "k")
        payload = PAYLOADS.get(projection.name, lambda n: {"task_id": f"t{n % 3}"})
        types = TYPES.get(projection.name, ["x.saved"])
        views = Views(log, store)

        async def append(numbers: range) -> None:
            drafts = [
                draft(
                    types[n % 11 == 0 and len(types) > 1],
                    msgspec.msgpack.encode(payload(n)),
                    id=f"{n}\n" if n % 50 == 0 else f"id{n}",
                )
                for n in numbers
            ]
            for start in range(0, len(drafts), packed):
                await log.append([Append(where, tuple(drafts[start : start + packed]))])

        for step, count in [*steps, ("restart", 0)]:
            match step:
                case "save":
                    await append(range(number, number + count))
                    number += count
                case "repeat":
                    await append(range(max(number - 3 * PAGE, 0), number, 37))
                case "restart":
                    await views.close()
                    views = Views(log, store)
                case "lose":
                    log.push = dropped
                case "clear" | "forget":
                    folded, head = await views.read_at(projection, where)
                    bodies = clearing(folded) if step == "clear" else [b"\x81\xa7refused\xc4\x00"]
                    drafts = tuple(draft(CLEARED, body, id=f"c{head}") for body in bodies)
                    if drafts:
                        await log.append([Append(where, drafts, head)], atomic=True)
                        await log.purge(where, before=head + 1)
            if step in ("restart", "read"):
                folded = await views.read(projection, where, "strong")
                truth = (await refold(log, projection, where)).folded
                assert folded.state == truth.state
                assert folded.seen == truth.seen
                assert truth.refused <= folded.refused
        await views.close()

    with pytest.MonkeyPatch.context() as monkeypatch:
        small_sizes(monkeypatch)
        asyncio.run(run())


def test_a_projection_without_a_way_to_keep_its_state_has_no_snapshots() -> None:
    class Count:
        name, version, latest_only = "count", 1, False

        def initial(self) -> int:
            return 0

        def apply(self, state: int, envelope: Recorded, /) -> int:
            return state + 1

    assert not snapshot.is_keepable(Count())
    assert all(snapshot.is_keepable(projection) for projection in KEPT)


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
