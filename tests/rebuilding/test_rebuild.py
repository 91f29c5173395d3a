"""Rebuilding beside what is served: compared, and put in its place at the end."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import foldlog
from foldlog import StateUpdate, TaskState, UpdateType
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Stored
from foldlog.store.rebuild import RebuildProgress
from foldlog.subjects import Subject
from foldlog.views.snapshots import DUE_ENVELOPES
from foldlog_projections.folds import all_records
from foldlog_projections.tasks import kind as tasks
from foldlog_projections.updates import kind as updates

LONG = DUE_ENVELOPES + 200


def update(n: int, session: str = "s") -> StateUpdate:
    return StateUpdate(
        session_id=session,
        task_id=f"task-{n % 3}",
        update_id=f"{session}-{n:05d}",
        update_type=UpdateType.PROGRESS,
        content={"n": n},
    )


def task(task_id: str, priority: int = 0) -> TaskState:
    return TaskState(
        task_id=task_id,
        session_id="s",
        status=foldlog.TaskStatus.RUNNING,
        task_type=foldlog.TaskType.BACKGROUND,
        priority=priority,
        context_snapshot=foldlog.TaskContextSnapshot(session_id="s", task_id=task_id),
    )


async def save_updates(
    store: foldlog.Store, count: int, session: str = "s", first: int = 0
) -> None:
    for start in range(first, first + count, 200):
        await asyncio.gather(
            *(
                store.save_update(update(n, session))
                for n in range(start, min(start + 200, first + count))
            )
        )


async def wait_for_snapshots(store: foldlog.Store) -> None:
    snapshots = store._core.hot_views.snapshots
    assert snapshots is not None
    if snapshots._writer is not None:
        snapshots._hurry.set()
        await asyncio.wait([snapshots._writer])


@pytest.fixture
async def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
async def store(log: MemoryLog) -> AsyncIterator[foldlog.Store]:
    async with foldlog.memory_store(log=log) as store:
        yield store


# --- comparing ----------------------------------------------------------------------------------


async def test_what_is_in_memory_and_wrong_is_named_with_its_first_difference(
    store: foldlog.Store,
) -> None:
    await save_updates(store, 5)
    await store.list_updates("s")
    view = store._core.hot_views.peek(updates, store._core.subject(updates, "s"))
    assert view is not None
    page = view.folded.state.page(0)
    page[3] = msgspec.structs.replace(page[3], payload=b"\x80")
    report = await store.rebuild()
    [difference] = report.differing
    assert difference.view == "updates/s"
    assert difference.served.envelopes == difference.rebuilt.envelopes == 5
    assert "state.last[3].payload" in difference.first
    # It is put right.
    assert [each.content["n"] for each in await store.list_updates("s")] == list(range(5))
    assert (await store.verify()).is_good


async def test_a_save_that_is_missing_from_memory_is_named(store: foldlog.Store) -> None:
    await save_updates(store, 3)
    await store.list_updates("s")
    view = store._core.hot_views.peek(updates, store._core.subject(updates, "s"))
    assert view is not None
    del view.folded.seen["s-00002"]
    [difference] = (await store.verify()).differing
    assert difference.first == "seen.s-00002: nothing was served, 2 is in the log"
    assert difference.served.digest != difference.rebuilt.digest


async def test_a_snapshot_that_is_wrong_is_named_and_replaced(
    store: foldlog.Store, log: MemoryLog
) -> None:
    """Its bytes are in order, and what they say is not so: only the log can tell."""
    await save_updates(store, LONG)
    await store.list_updates("s")
    view = store._core.hot_views.peek(updates, store._core.subject(updates, "s"))
    assert view is not None
    view.folded.state.places["task-1"][0] = 2
    await wait_for_snapshots(store)
    await store._core.hot_views.drop()
    report = await store.verify()
    [difference] = report.differing
    assert "state.places.task-1" in difference.first
    assert (await store.rebuild()).differing == report.differing
    assert (await store.verify()).differing == ()


async def test_a_snapshot_of_a_fork_that_is_wrong_is_named(store: foldlog.Store) -> None:
    await save_updates(store, LONG)
    await store.fork("s", at=await store.position(), to="forked")
    await save_updates(store, 1, "forked")
    await store.list_updates("forked")
    await wait_for_snapshots(store)
    await store._core.hot_views.drop()
    assert (await store.verify("updates")).is_good
    await store.list_updates("forked")
    view = store._core.hot_views.peek(updates, store._core.subject(updates, "forked"))
    assert view is not None
    await store.list_updates("forked", limit=LONG)  # with its pages in memory
    view.folded.state.places["task-1"][0] = 2
    view.unsaved = LONG
    snapshots = store._core.hot_views.snapshots
    assert snapshots is not None
    snapshots.offer(view)
    await wait_for_snapshots(store)
    await store._core.hot_views.drop()
    [difference] = (await store.verify("updates")).differing
    assert difference.view == "updates/forked"
    assert "state.places.task-1" in difference.first


async def test_records_that_are_wrong_are_named_and_put_right(store: foldlog.Store) -> None:
    """Pages and watchers read a view of all records, beside that of the kind."""
    for n in range(3):
        await store.save_task(task(f"t{n}"))
    records = all_records(tasks)
    await store.items(tasks("s"))
    view = store._core.hot_views.peek(records, store._core.subject(tasks, "s"))
    assert view is not None
    page = view.folded.state.page(0)
    assert page is not None
    page[1] = msgspec.structs.replace(page[1], payload=b"\x80")
    [difference] = (await store.verify()).differing
    assert difference.view == "records/s"
    assert "state.last[1].payload" in difference.first
    assert (await store.verify("updates")).is_good
    assert (await store.rebuild("tasks")).differing == (difference,)
    assert [item.record.task_id for item in await store.items(tasks("s"))] == ["t0", "t1", "t2"]
    assert (await store.verify()).is_good


async def test_a_snapshot_of_records_that_is_wrong_is_named_and_replaced(
    store: foldlog.Store,
) -> None:
    for n in range(LONG):
        await store.save_task(task(f"t{n % 3}"))
    await store.items(tasks("s"), limit=1)
    view = store._core.hot_views.peek(all_records(tasks), store._core.subject(tasks, "s"))
    assert view is not None
    view.folded.state.marks[1] += 1
    await wait_for_snapshots(store)
    await store._core.hot_views.drop()
    [difference] = (await store.verify()).differing
    assert difference.view == "records/s"
    assert "state.marks[1]" in difference.first
    assert (await store.rebuild()).differing == (difference,)
    assert (await store.verify()).is_good


async def test_a_page_of_a_long_sequence_that_is_wrong_is_named_by_its_envelope(
    store: foldlog.Store,
) -> None:
    await save_updates(store, 300)
    await store.list_updates("s", limit=300)
    view = store._core.hot_views.peek(updates, store._core.subject(updates, "s"))
    assert view is not None
    page = view.folded.state.page(1)
    assert page is not None
    page[2] = msgspec.structs.replace(page[2], payload=b"\x80")
    [difference] = (await store.verify()).differing
    assert difference.first.startswith(f"envelope 130, sequence {page[2].seq}: ")


async def test_a_backup_that_is_put_back_is_accepted_for_records_too() -> None:
    class Restored(MemoryLog):
        losses = 0

        @property
        def epoch(self) -> int:
            return self.losses

    log = Restored()
    async with foldlog.memory_store(log=log) as store:
        for n in range(4):
            await store.save_task(task(f"t{n}"))
        assert len(await store.items(tasks("s"))) == len(await store.list_tasks("s")) == 4
        del log._stored[store._core.subject(tasks, "s")][-2:]
        log._heads[0] -= 2
        log.losses += 1
        for read in (store.items(tasks("s"), consistency="strong"), store.list_tasks("s")):
            with pytest.raises(foldlog.LogRewound):
                await read
        await store.rebuild()
        assert len(await store.items(tasks("s"), consistency="strong")) == 2
        assert len(await store.list_tasks("s")) == 2
        assert (await store.verify()).is_good


async def test_what_was_wrong_in_memory_is_never_kept(
    store: foldlog.Store, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snapshots fall due between the switch and the moment in which memory is let go of."""
    snapshots = store._core.hot_views.snapshots
    assert snapshots is not None
    views = []
    for session in ("turn has come", "waits"):
        await save_updates(store, LONG, session)
        await store.list_updates(session)
        views.append(store._core.hot_views.peek(updates, store._core.subject(updates, session)))
    await wait_for_snapshots(store)

    async def accept() -> None:
        for view in views:
            assert view is not None
            view.unsaved = LONG
            snapshots.offer(view)
        for _ in range(50):
            await asyncio.sleep(0)

    monkeypatch.setattr(log, "accept", accept)
    for view in views:
        assert view is not None
        view.folded.state.places["task-1"][0] = 2
    assert len((await store.rebuild("updates")).differing) == 2
    await wait_for_snapshots(store)
    async with foldlog.memory_store(log=log) as other:
        assert (await other.verify("updates")).differing == ()


async def test_views_that_are_written_to_all_the_while_do_not_differ(store: foldlog.Store) -> None:
    """What is compared stands at one point of the log on both sides."""
    await save_updates(store, 50)
    await store.list_updates("s")
    done = asyncio.Event()

    async def write() -> None:
        n = 50
        while not done.is_set():
            await store.save_update(update(n))
            n += 1

    writer = asyncio.create_task(write())
    try:
        for _ in range(8):
            assert (await store.rebuild()).differing == ()
            assert len(await store.list_updates("s")) >= 50
    finally:
        done.set()
        await writer


# --- beside, and only then instead --------------------------------------------------------------


async def test_a_rebuild_writes_the_snapshots_that_are_due(
    store: foldlog.Store, log: MemoryLog
) -> None:
    await save_updates(store, LONG)
    await store.list_updates("s")
    await store._core.hot_views.drop()
    await store._core.hot_views.drop_snapshots()
    await store.rebuild()
    written = dict(log.snapshots._side.stored)
    assert {name.split(".")[5] for name in written} == {"updates"}
    async with foldlog.memory_store(log=log) as other:
        snapshots = other._core.hot_views.snapshots
        assert snapshots is not None
        restored = await snapshots.load(updates, store._core.subject(updates, "s"))
        assert restored is not None
        assert len(await other.list_updates("s", limit=LONG + 1)) == LONG
        await other.rebuild()
    assert log.snapshots._side.stored == written  # those that are right are not written again


async def test_what_cannot_be_read_stays_as_it_is_and_the_rest_is_rebuilt(
    store: foldlog.Store, log: MemoryLog
) -> None:
    await save_updates(store, LONG)
    await store.save_task(task("t"))
    await store.list_updates("s")
    await store.list_tasks("s")
    await wait_for_snapshots(store)
    subject = store._core.subject(tasks, "s")
    damaged = Stored(subject.name, log._heads[0] + 1, "2026-01-01T00:00:00Z", b"no record")
    log._stored[subject].append(damaged)
    with pytest.raises(foldlog.LogCorrupt):
        await store.rebuild()
    assert store._core.hot_views.peek(tasks, subject)
    assert store._core.hot_views.peek(updates, store._core.subject(updates, "s")) is None
    assert len(await store.list_updates("s", limit=LONG + 1)) == LONG


async def test_a_rebuild_by_another_version_replaces_its_snapshots(
    store: foldlog.Store, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(LONG):
        await store.save_task(task(f"t{n % 7}", priority=n))
    await store.list_tasks("s")
    await wait_for_snapshots(store)
    await store.close()

    def apply(state: dict[str, Any], envelope: Any, /) -> dict[str, Any]:
        state = before(state, envelope)
        state.pop("t3", None)
        return state

    before = tasks.apply
    monkeypatch.setattr(tasks, "apply", apply)
    monkeypatch.setattr(tasks, "version", 2)
    async with foldlog.memory_store(log=log) as newer:
        # What another version has stored is none that this one serves.
        assert (await newer.rebuild("tasks")).differing == ()
        snapshots = newer._core.hot_views.snapshots
        assert snapshots is not None
        restored = await snapshots.load(tasks, store._core.subject(tasks, "s"))
        assert restored is not None
        assert "t3" not in restored.folded.state
        assert len(await newer.list_tasks("s")) == 6


async def test_a_watcher_sees_neither_gap_nor_repeat_across_a_rebuild(
    store: foldlog.Store,
) -> None:
    await save_updates(store, 10)
    async with aclosing(store.watch_updates("s")) as watched:
        first = [(await anext(watched)).content["n"] for _ in range(6)]
        view = store._core.hot_views.peek(updates, store._core.subject(updates, "s"))
        assert view is not None
        stale = view.folded
        await store.rebuild()
        await save_updates(store, 2, first=10)
        rest = [(await anext(watched)).content["n"] for _ in range(6)]
        assert first + rest == list(range(12))
        again = store._core.hot_views.peek(updates, store._core.subject(updates, "s"))
        assert again is not None
        assert again.folded is not stale


# --- interrupted --------------------------------------------------------------------------------


class Interrupted(Exception):
    """What stands for a kill: nothing of the rebuild runs afterwards."""


async def test_one_that_was_cut_short_leaves_all_as_it_was_read(
    store: foldlog.Store, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foldlog.log.memory._PAGE", 50)
    for session in "abcd":
        await save_updates(store, LONG, session)

    def interrupt(progress: RebuildProgress) -> None:
        if progress.done >= 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        await store.rebuild("updates", on_progress=interrupt)
    async with foldlog.memory_store(log=log) as other:
        for session in "abcd":
            assert len(await other.list_updates(session, limit=LONG + 1)) == LONG
        assert (await other.verify("updates")).is_good
        report = await other.rebuild("updates")
    assert (report.views, report.envelopes) == (4, 4 * LONG)


async def test_two_rebuilds_at_once_give_the_same(store: foldlog.Store, log: MemoryLog) -> None:
    for session in "abcd":
        await save_updates(store, 30, session)
    async with foldlog.memory_store(log=log) as other:
        one, two = await asyncio.gather(store.rebuild("updates"), other.rebuild("updates"))
    assert dataclasses.replace(one, seconds=0) == dataclasses.replace(two, seconds=0)
    assert (await store.verify()).is_good


# --- verifying ----------------------------------------------------------------------------------


async def test_verifying_changes_nothing(store: foldlog.Store, log: MemoryLog) -> None:
    await save_updates(store, LONG)
    await store.list_updates("s")
    await wait_for_snapshots(store)
    before = dict(log.snapshots._side.stored), dict(log._heads and log._stored)
    report = await store.verify()
    assert report.is_good
    assert report.projections["updates"] == 1
    assert report.envelopes >= LONG
    assert (dict(log.snapshots._side.stored), dict(log._stored)) == before
    assert store._core.hot_views.peek(updates, store._core.subject(updates, "s"))


async def test_what_cannot_be_read_is_reported_with_its_position(
    store: foldlog.Store, log: MemoryLog
) -> None:
    await save_updates(store, 3)
    await store.save_memory_state("key", {"n": 1})
    subject = store._core.subject(updates, "s")
    stored = log._stored[subject][0]
    log._stored[subject][0] = msgspec.structs.replace(stored, data=b"\xff")
    report = await store.verify()
    assert not report.is_good
    [finding] = report.findings
    assert (finding.where, finding.sequence) == (subject.name, stored.seq)
    assert report.projections["memory"] == 1


async def test_records_that_are_counted_and_not_given_are_reported(
    store: foldlog.Store, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        await store.save_update(update(n))
    subjects = log.subjects

    async def more(family: str | None = None, shard: int | None = None) -> dict[Subject, int]:
        return {each: count + 1 for each, count in (await subjects(family, shard)).items()}

    monkeypatch.setattr(log, "subjects", more)
    [finding] = (await store.verify("updates")).findings
    assert finding.reason == "1 of 4 records cannot be read"
    assert finding.where == store._core.subject(updates, "s").name


async def test_an_unknown_projection_is_refused(store: foldlog.Store) -> None:
    with pytest.raises(foldlog.NotFound, match="weather"):
        await store.verify("weather")


def test_a_namespace_of_several_shards_is_rebuilt_whole() -> None:
    async def run() -> SimpleNamespace:
        async with foldlog.memory_store(shards=4) as store:
            for session in map(str, range(20)):
                await save_updates(store, 3, session)
            report = await store.rebuild()
            return SimpleNamespace(views=report.projections["updates"], good=await store.verify())

    result = asyncio.run(run())
    assert result.views == 20
    assert result.good.is_good
