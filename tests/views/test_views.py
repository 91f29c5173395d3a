"""Views under a log whose pushes are lost, late and repeated: the log is the truth."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given, strategies as st

from foldlog.envelope import Recorded, draft
from foldlog.errors import ConfigurationError, LogCorrupt, LogUnavailable, StoreClosed
from foldlog.log.forks import ForkedLog
from foldlog.log.port import Append, OnRecord, Record
from foldlog.subjects import Subject
from foldlog.views import Consistency, Views, views as views_module, watching
from foldlog.views.hot import Hot
from foldlog.views.view import EMPTY_BYTES, View
from foldlog_projections.folds import all_records
from foldlog_projections.memory import kind as memory
from foldlog_projections.tasks import kind as tasks
from foldlog_projections.updates import kind as updates
from tests.views.support import Log, dropped, is_hot, read, save, subject


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
async def views(log: Log) -> AsyncIterator[Views]:
    views = Views(log)
    yield views
    await views.close()
    assert log.followed == 0


async def test_a_hot_view_needs_no_network(log: Log, views: Views) -> None:
    await save(log, "1")
    assert await read(views) == ["1"]
    reads = log.reads
    await save(log, "2", "3")
    for consistency in ("session", "eventual"):
        assert await read(views, consistency) == ["1", "2", "3"]
    assert log.reads == reads


async def test_a_strong_read_asks_the_log_every_time(log: Log, views: Views) -> None:
    await read(views)
    log.push = dropped
    await save(log, "1")
    reads = log.reads
    assert await read(views, "strong") == ["1"]
    assert await read(views, "strong") == ["1"]
    assert log.reads == reads + 2


async def test_what_this_process_saved_is_seen_though_its_push_was_lost(
    log: Log, views: Views
) -> None:
    await read(views)
    log.push = dropped
    views.acked(subject(), await save(log, "1"))
    assert await read(views, "eventual") == []
    assert await read(views, "session") == ["1"]


async def test_a_gap_between_pushes_is_read_from_the_log(log: Log, views: Views) -> None:
    await read(views)
    log.push = dropped
    await save(log, "1")
    log.push = lambda on_record, record: on_record(record)
    await save(log, "2")
    assert await read(views) == ["1", "2"]


async def test_pushes_out_of_order_wait_for_the_one_before(log: Log, views: Views) -> None:
    await read(views)
    held: list[tuple[OnRecord, Record]] = []
    log.push = lambda on_record, record: held.append((on_record, record))
    for id in ("1", "2", "3"):
        await save(log, id)
    reads = log.reads
    for on_record, record in [held[2], held[1], held[2], held[0], held[0]]:
        on_record(record)
    assert await read(views) == ["1", "2", "3"]
    assert log.reads == reads


async def test_after_a_missed_push_the_log_is_asked_once(log: Log, views: Views) -> None:
    await save(log, "1")
    await read(views)
    log.push = dropped
    await save(log, "2")
    assert await read(views) == ["1"]
    log.missed += 1
    assert await read(views) == ["1", "2"]
    reads = log.reads
    assert await read(views) == ["1", "2"]
    assert log.reads == reads


async def test_a_lost_last_push_is_found_when_trust_ends(
    log: Log, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    await read(views)
    log.push = dropped
    await save(log, "1")
    assert await read(views) == []
    monkeypatch.setattr(views_module, "TRUST_SECONDS", 0.0)
    assert await read(views) == ["1"]


async def test_concurrent_readers_share_one_hydration(log: Log, views: Views) -> None:
    await save(log, *(f"{n}" for n in range(50)))
    found = await asyncio.gather(*(read(views) for _ in range(20)))
    assert all(len(ids) == 50 for ids in found)
    assert log.followed == 1
    assert len(views) == 1
    assert log.reads == 1


async def test_strong_readers_share_what_is_read_after_all_of_them_came(
    log: Log, views: Views
) -> None:
    await save(log, "1")
    found = await asyncio.gather(*(read(views, "strong") for _ in range(5)))
    assert found == [["1"]] * 5
    assert log.reads == 2  # the others came while the first was reading


async def test_a_strong_read_sees_what_was_stored_before_it_though_another_reads_already(
    log: Log, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    await read(views)
    log.push = dropped
    reached, go = asyncio.Event(), asyncio.Event()
    unhindered = log.read

    async def slow(subject: Subject, *, after: int = 0, strong: bool = True) -> Any:
        pages = [page async for page in unhindered(subject, after=after, strong=strong)]
        monkeypatch.setattr(log, "read", unhindered)
        reached.set()
        await go.wait()
        for page in pages:
            yield page

    monkeypatch.setattr(log, "read", slow)
    first = asyncio.create_task(read(views, "strong"))
    await reached.wait()
    await save(log, "1")
    second = asyncio.create_task(read(views, "strong"))
    await asyncio.sleep(0)
    go.set()
    assert await second == ["1"]
    await first


async def test_those_who_wait_for_a_read_that_fails_fail_with_it(
    log: Log, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0

    async def away(subject: Subject, *, after: int = 0, strong: bool = True) -> Any:
        nonlocal reads
        reads += 1
        for _ in range(10):
            await asyncio.sleep(0)
        raise LogUnavailable("away")
        yield

    monkeypatch.setattr(log, "read", away)
    found = await asyncio.gather(*(read(views) for _ in range(5)), return_exceptions=True)
    assert [type(each) for each in found] == [LogUnavailable] * 5
    assert reads == 2


async def test_a_cancelled_hydration_is_taken_over(log: Log, views: Views) -> None:
    await save(log, "1")
    first = asyncio.create_task(read(views))
    second = asyncio.create_task(read(views))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == ["1"]
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_failed_hydration_is_tried_again(log: Log, views: Views) -> None:
    await save(log, "1")
    log.away = True
    with pytest.raises(LogUnavailable):
        await read(views)
    log.away = False
    assert await read(views) == ["1"]


async def test_failed_first_reads_leave_nothing_behind(log: Log, views: Views) -> None:
    log.away = True
    for n in range(20):
        with pytest.raises(LogUnavailable):
            await read(views, key=f"s{n}")
    assert (len(views), log.followed) == (0, 0)


@pytest.mark.parametrize("turns", range(6))
async def test_a_cancelled_first_read_leaves_nothing_behind(
    log: Log, views: Views, turns: int
) -> None:
    await save(log, "1")
    reading = asyncio.create_task(read(views))
    for _ in range(turns):
        await asyncio.sleep(0)
    reading.cancel()
    (result,) = await asyncio.gather(reading, return_exceptions=True)
    finished = isinstance(result, list)
    assert (len(views), log.followed) == ((1, 1) if finished else (0, 0))
    assert await read(views) == ["1"]


async def test_a_first_read_that_fails_for_one_is_kept_for_the_next(
    log: Log, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    await save(log, "1")
    unhindered = log.read

    def away(subject: Subject, *, after: int = 0, strong: bool = True) -> Any:
        monkeypatch.setattr(log, "read", unhindered)
        raise LogUnavailable("away")

    monkeypatch.setattr(log, "read", away)
    first = asyncio.create_task(read(views))
    second = asyncio.create_task(read(views))
    with pytest.raises(LogUnavailable):
        await first
    assert await second == ["1"]
    assert (len(views), log.followed) == (1, 1)


async def test_views_that_grow_while_they_are_hot_evict_others(log: Log) -> None:
    views = Views(log, max_hot_bytes=20_000)
    keys = ("a", "b", "c")
    for key in keys:
        await read(views, key=key)
    assert len(views) == 3
    for n in range(50):
        for key in keys:
            await save(log, f"{n}", key=key, size=200)
    assert len(await read(views, key="b")) == 50
    assert (len(views), log.followed) == (1, 1)
    assert len(await read(views, key="a")) == 50
    await views.close()


async def test_a_fold_and_its_head_belong_together_though_its_view_is_made_anew(
    log: Log, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = await save(log, "1")
    await read(views)
    reached, go = asyncio.Event(), asyncio.Event()
    unhindered = log.read

    async def slow(subject: Subject, *, after: int = 0, strong: bool = True) -> Any:
        pages = [page async for page in unhindered(subject, after=after, strong=strong)]
        reached.set()
        await go.wait()
        for page in pages:
            yield page

    monkeypatch.setattr(log, "read", slow)
    first = asyncio.create_task(views.read_at(updates, subject()))
    await reached.wait()
    monkeypatch.setattr(log, "read", unhindered)
    await views.drop()
    newer = await save(log, "2")
    assert (await views.read_at(updates, subject()))[1] == newer
    go.set()
    folded, at = await first
    assert ([item.id for item in folded.state], at) == (["1"], head)


async def test_eventual_reads_leave_the_leader_alone(
    log: Log, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    await read(views)
    log.push = dropped
    await save(log, "1")
    asked: list[bool] = []
    unhindered = log.read

    def noted(subject: Subject, *, after: int = 0, strong: bool = True) -> Any:
        asked.append(strong)
        return unhindered(subject, after=after, strong=strong)

    monkeypatch.setattr(log, "read", noted)
    log.missed += 1
    assert await read(views, "eventual") == ["1"]
    assert asked == [False]


async def test_a_replica_that_lags_hides_nothing_from_session_reads(
    log: Log, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    await read(views)
    log.push = dropped
    views.acked(subject(), await save(log, "1"))
    unhindered = log.read

    async def lagging(subject: Subject, *, after: int = 0, strong: bool = True) -> Any:
        async for page in unhindered(subject, after=after, strong=strong):
            if strong:
                yield page

    monkeypatch.setattr(log, "read", lagging)
    log.missed += 1
    assert await read(views, "eventual") == []
    assert await read(views, "session") == ["1"]


async def test_views_are_evicted_by_bytes_with_their_subscriptions(log: Log) -> None:
    views = Views(log, max_hot_bytes=100_000)
    for n in range(100):
        await save(log, f"{n}", key=f"s{n}", size=200)
        assert await read(views, key=f"s{n}") == [f"{n}"]
    assert len(views) < 30
    assert log.followed == len(views)
    assert await read(views, key="s0") == ["0"]
    await views.close()
    assert log.followed == 0


async def test_the_view_used_least_recently_goes_first(log: Log) -> None:
    views = Views(log, max_hot_bytes=int(3.5 * EMPTY_BYTES))
    for key in ("a", "b", "c", "a", "d"):
        await read(views, key=key)
    assert not is_hot(views, subject("b"))
    assert all(is_hot(views, subject(key)) for key in ("a", "c", "d"))
    await views.close()


async def test_a_watcher_of_a_view_that_was_evicted_goes_on(log: Log) -> None:
    views = Views(log, max_hot_bytes=int(1.5 * EMPTY_BYTES))
    await save(log, "1", key="a")
    async with aclosing(watching.watch(views, updates, subject("a"), None)) as items:
        await anext(items)
        waiting = asyncio.ensure_future(anext(items))
        for key in ("b", "c"):
            await read(views, key=key)
        assert not is_hot(views, subject("a"))
        await save(log, "2", key="a")
        assert (await waiting).id == "2"
    await read(views, key="d")
    assert (len(views), log.followed) == (1, 1)
    await views.close()


async def test_a_watcher_that_does_not_read_takes_no_memory(log: Log) -> None:
    views = Views(log, max_hot_bytes=20 * EMPTY_BYTES)
    ids = [f"{n}" for n in range(2000)]
    async with aclosing(watching.watch(views, updates, subject(), None)) as items:
        await save(log, ids[0])
        assert (await anext(items)).id == ids[0]
        most = 0
        for id in ids[1:]:
            await save(log, id, size=1000)
            most = max(most, sum(view.bytes for view in views._hot))
            await asyncio.sleep(0)
        assert most < 25 * EMPTY_BYTES
        assert [(await anext(items)).id for _ in ids[1:]] == ids[1:]
    await views.close()
    assert log.followed == 0


async def test_what_was_pushed_ahead_is_counted(log: Log, views: Views) -> None:
    await save(log, "0")
    await read(views)
    before = views._hot.bytes
    log.push = dropped
    await save(log, "1")
    log.push = lambda on_record, record: on_record(record)
    for n in range(2, 50):
        await save(log, f"{n}", size=10_000)
    assert views._hot.bytes > before + 48 * 10_000
    assert len(await read(views)) == 50
    whole = Views(log)
    await read(whole)
    assert views._hot.bytes == whole._hot.bytes
    await whole.close()


async def test_the_records_of_a_kind_that_folds_otherwise_hear_of_appends_too(
    log: Log, views: Views
) -> None:
    records = all_records(updates)
    await save(log, "1")
    assert len((await views.read(records, subject(), "session")).state) == 1
    log.push = dropped
    views.acked(subject(), await save(log, "2"))
    assert len((await views.read(records, subject(), "session")).state) == 2


async def test_an_append_whose_outcome_is_unknown_unsettles_every_view_of_its_subject(
    log: Log,
) -> None:
    class Own:
        name, version, latest_only, family = "own", 1, False, "updates"
        keep = restore = None
        early_snapshots = forgets_ids = False
        replaces = digest = digest_of = remains = None

        def initial(self) -> int:
            return 0

        def apply(self, state: int, envelope: Recorded, /) -> int:
            return state + 1

    own = Own()
    views = Views(log)
    for projection in (updates, own):
        await views.read(projection, subject(), "session")
    log.push = dropped
    await save(log, "1")
    views.unsettled(subject())
    assert await read(views) == ["1"]
    assert (await views.read(own, subject(), "session")).state == 1
    await views.close()


async def test_what_goes_is_found_without_looking_at_what_stays() -> None:
    hot = Hot(max_bytes=0)
    looked = 0

    class Watched(View[Any]):
        @property
        def is_hydrated(self) -> bool:
            nonlocal looked
            looked += 1
            return super().is_hydrated

    def add(key: str) -> View[Any]:
        view = Watched(updates, subject(key))
        view.looked = 1
        hot.add(view)
        hot.weigh(view)
        return view

    added = [add(str(n)) for n in range(1000)]
    looked = 0
    keep = added[0]
    gone = []
    while (view := hot.surplus(keep)) is not None:
        hot.remove(view)
        gone.append(view)
    assert gone == added[1:]
    assert looked == 0
    assert list(hot) == [keep]


async def test_a_view_that_outgrows_all_is_kept_while_it_is_read(log: Log) -> None:
    views = Views(log, max_hot_bytes=10)
    await save(log, "1", "2", size=200)
    assert await read(views) == ["1", "2"]
    assert await read(views) == ["1", "2"]
    await views.close()


async def test_the_latest_view_is_one_get(log: Log, views: Views) -> None:
    where = log.namespace.subject("memory", "k")
    writing = ForkedLog(log)

    async def append(id: str) -> int:
        return (await writing.append([Append(where, (draft("m", b"\xc0", id=id),))]))[0]

    for id in ("1", "2", "3"):
        await append(id)
    folded = await views.read(memory, where, "session")
    assert folded.state is not None
    assert folded.state.id == "3"
    log.push = dropped
    views.acked(where, await append("4"))
    kinds: list[Consistency] = ["session", "strong", "strong"]
    for consistency in kinds:
        folded = await views.read(memory, where, consistency)
        assert folded.state is not None
        assert folded.state.id == "4"
    assert log.reads == 0


async def test_a_payload_that_is_not_what_it_says_is_corrupt(log: Log, views: Views) -> None:
    where = log.namespace.subject("tasks", "s")
    good = draft("task.saved", b"\x81\xa7task_id\xa1t", id="1")
    await log.append([Append(where, (good,))])
    folded = await views.read(tasks, where, "session")
    assert list(folded.state) == ["t"]
    await log.append([Append(where, (draft("task.saved", b"\xc0", id="2"),))])
    for _ in range(2):
        with pytest.raises(LogCorrupt) as corrupt:
            await views.read(tasks, where, "session")
        assert corrupt.value.sequence == 2


async def test_an_unknown_consistency_is_refused(views: Views) -> None:
    with pytest.raises(ConfigurationError, match="strong, session, eventual"):
        await read(views, "quorum")


async def test_a_watcher_goes_on_after_an_outage(
    log: Log, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    await save(log, "1")
    seen: list[str] = []
    async with aclosing(watching.watch(views, updates, subject(), None)) as items:
        seen.append((await anext(items)).id)
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        log.push, log.away = dropped, True
        await save(log, "2")
        log.missed += 1
        views.wake()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        log.away = False
        views.wake()
        seen.append((await waiting).id)
    assert seen == ["1", "2"]


async def test_closing_ends_watchers_at_once(log: Log) -> None:
    views = Views(log)
    async with aclosing(watching.watch(views, updates, subject(), None)) as items:
        waiting = asyncio.ensure_future(anext(items))
        await save(log, "1")
        assert (await waiting).id == "1"
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        await views.close()
        with pytest.raises(StoreClosed):
            await waiting
    with pytest.raises(StoreClosed):
        await read(views)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["save", "lose", "hold", "release", "miss", "read", "strong", "drop"]),
            st.integers(0, 5),
        ),
        max_size=40,
    )
)
def test_whatever_happens_to_pushes_a_strong_read_is_the_log(
    steps: list[tuple[str, int]],
) -> None:
    async def run() -> None:
        log = Log()
        views = Views(log)
        held: list[tuple[OnRecord, Record]] = []
        written: list[str] = []
        for step, number in steps:
            if step in ("save", "lose", "hold"):
                log.push = {
                    "save": lambda on_record, record: on_record(record),
                    "lose": dropped,
                    "hold": lambda on_record, record: held.append((on_record, record)),
                }[step]
                id = f"{number}"
                views.acked(subject(), await save(log, id))
                if id not in written:
                    written.append(id)
            elif step == "release" and held:
                on_record, record = held.pop(number % len(held))
                on_record(record)
            elif step == "miss":
                log.missed += 1
            elif step == "drop":
                await views.drop()
            else:
                kind = "strong" if step == "strong" else "session"
                # All saves are this process's own, so `session` owes it all as well.
                assert await read(views, kind) == written
        assert await read(views, "strong") == written
        await views.close()

    asyncio.run(run())


def test_recorded_envelopes_compare_by_value() -> None:
    one = Recorded("1", "x", 1, 0.0, b"\xc0", None, 1, 0, "2026-01-01T00:00:00Z")
    assert one == Recorded("1", "x", 1, 0.0, b"\xc0", None, 1, 0, "2026-01-01T00:00:00Z")
