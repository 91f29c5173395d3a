"""Tasks that were spawned from others, and those that belong together in groups."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import foldlog
from foldlog import TaskType
from foldlog.errors import NotFound
from foldlog.sessions import (
    GroupSealed,
    IllegalTransition,
    MergeStrategy,
    Session,
)
from tests.sessions.conftest import OpenSession
from tests.sessions.support import patch, running, statuses, steer, told
from tests.support.build import task

# --- families -----------------------------------------------------------------------------------


async def family(session: Session) -> None:
    """root > child > grandchild; root > isolated > below; root > done > under-done."""
    await running(session, "root")
    for task_id, parent, how in (
        ("child", "root", "cascade"),
        ("grandchild", "child", "cascade"),
        ("isolated", "root", "isolate"),
        ("below", "isolated", "cascade"),
        ("done", "root", "cascade"),
        ("under-done", "done", "cascade"),
        ("other", "elsewhere", "cascade"),
    ):
        await session.spawn_task(
            task_id=task_id,
            parent_task_id=parent,
            propagate_on_cancel=how,  # type: ignore[arg-type]
        )
    await session.start_task("done")
    await session.complete_task("done")


async def test_a_cancellation_reaches_all_that_was_spawned_and_is_not_isolated(
    store: foldlog.Store, session: Session
) -> None:
    await family(session)
    await session.cancel_task("root", reason="enough")
    assert await statuses(store) == {
        "root": "CANCELLED",
        "child": "CANCELLED",
        "grandchild": "CANCELLED",
        "isolated": "PENDING",
        "below": "PENDING",
        "done": "COMPLETE",
        "under-done": "CANCELLED",
        "other": "PENDING",
    }
    events = {event.task_id: event for event in await store.list_steering("s")}
    assert set(events) == {"root", "child", "grandchild", "under-done"}
    assert events["grandchild"].payload == {"reason": "enough", "cascaded_from": "root"}
    assert (events["root"].source, events["child"].source) == ("user", "system")


async def test_a_cascade_is_all_or_nothing(session: Session, store: foldlog.Store) -> None:
    await family(session)
    last = (await store.health()).streams[0].last_seq
    await session.cancel_task("root")
    # One record for the tasks, one for the updates, one for the steering: one append.
    assert (await store.health()).streams[0].last_seq == last + 3


async def test_a_circle_of_tasks_is_cancelled_and_has_an_end(
    store: foldlog.Store, session: Session
) -> None:
    for task_id, parent in (("a", "b"), ("b", "c"), ("c", "a"), ("self", "self")):
        snapshot = foldlog.TaskContextSnapshot(
            session_id="s", task_id=task_id, spawned_from_task_id=parent
        )
        await store.save_task(task(task_id, "s", context_snapshot=snapshot))
    await session.cancel_task("a")
    await session.cancel_task("self")
    assert set((await statuses(store)).values()) == {"CANCELLED"}


async def test_nothing_is_spawned_from_what_was_cancelled_but_what_is_isolated(
    session: Session,
) -> None:
    await running(session, "root")
    await session.cancel_task("root")
    with pytest.raises(IllegalTransition):
        await session.spawn_task(task_id="late", parent_task_id="root")
    await session.spawn_task(task_id="free", parent_task_id="root", propagate_on_cancel="isolate")


async def test_who_spawns_meanwhile_is_cancelled_or_refused(
    store: foldlog.Store, session: Session, open_session: OpenSession
) -> None:
    await running(session, "root")
    other = await open_session()
    results = await asyncio.gather(
        *(other.spawn_task(task_id=f"t{n}", parent_task_id="root") for n in range(3)),
        session.cancel_task("root"),
        return_exceptions=True,
    )
    assert results[-1] is None
    assert set((await statuses(store)).values()) == {"CANCELLED"}


async def test_the_foreground_is_the_parent_unless_one_is_named(session: Session) -> None:
    orphan = await session.spawn_task(task_id="orphan")
    assert orphan.context_snapshot.spawned_from_task_id == "foreground"
    await session.start_task("orphan")
    assert session.foreground_task_id == "orphan"
    child = await session.spawn_task(task_type=TaskType.BACKGROUND)
    assert child.context_snapshot.spawned_from_task_id == "orphan"
    await session.complete_task("orphan")
    assert session.foreground_task_id is None


# --- groups -------------------------------------------------------------------------------------


async def grouped(session: Session, *task_ids: str, **options: Any) -> None:
    await session.create_group("research", group_id="g", **options)
    for task_id in task_ids:
        await running(session, task_id, group_id="g")


async def test_a_group_is_complete_when_it_is_sealed_and_all_of_it_is(
    store: foldlog.Store, session: Session
) -> None:
    await grouped(session, "a", "b")
    await session.complete_task("a")
    group = await session.seal_group("g")
    assert (group.status, group.pending_task_ids) == ("sealed", ("b",))
    assert await told(store, "NOTIFICATION", task_id="g") == []
    await session.complete_task("b")
    group = session.state.group("g")
    assert (group.status, group.completed_task_ids) == ("complete", ("a", "b"))
    assert group.ended_at is not None
    [ended] = await told(store, "NOTIFICATION", task_id="g")
    assert (ended["kind"], ended["status"], ended["task_count"]) == ("group_ended", "complete", 2)


async def test_a_group_that_is_sealed_last_is_complete_at_once(session: Session) -> None:
    await grouped(session, "a")
    await session.complete_task("a")
    assert (await session.seal_group("g")).status == "complete"
    assert (await session.seal_group("g")).status == "complete"


async def test_a_group_fails_with_one_of_its_tasks_when_all_have_ended(session: Session) -> None:
    await grouped(session, "a", "b")
    await session.seal_group("g")
    await session.fail_task("a", "broken")
    assert session.state.group("g").status == "sealed"
    await session.complete_task("b")
    group = session.state.group("g")
    assert (group.status, group.failed_task_ids) == ("failed", ("a",))


async def test_a_cascade_ends_groups_in_the_same_moment(
    store: foldlog.Store, session: Session
) -> None:
    await running(session, "root")
    await session.create_group("research", group_id="g")
    for task_id in ("a", "b"):
        await session.spawn_task(task_id=task_id, parent_task_id="root", group_id="g")
    await session.seal_group("g")
    await session.cancel_task("root")
    assert session.state.group("g").status == "failed"
    assert len(await told(store, "NOTIFICATION", task_id="g")) == 1


async def test_nothing_joins_what_is_sealed_or_not_there(session: Session) -> None:
    await grouped(session)
    assert (await session.seal_group("g")).status == "complete"
    with pytest.raises(GroupSealed):
        await session.spawn_task(task_id="late", group_id="g")
    with pytest.raises(NotFound):
        await session.spawn_task(task_id="lost", group_id="nobody")
    with pytest.raises(NotFound):
        await session.seal_group("nobody")
    assert (await session.refresh()).tasks == []


async def test_a_group_ends_once_whoever_comes_last(
    store: foldlog.Store, session: Session, open_session: OpenSession
) -> None:
    for number in range(5):
        group_id = f"g{number}"
        await session.create_group("race", group_id=group_id)
        ids = [f"{group_id}-{task}" for task in range(2)]
        for task_id in ids:
            await running(session, task_id, group_id=group_id)
        other = await open_session()
        await asyncio.gather(
            session.complete_task(ids[0]), other.complete_task(ids[1]), other.seal_group(group_id)
        )
        assert (await session.refresh()).group(group_id).status == "complete"
        assert len(await told(store, "NOTIFICATION", task_id=group_id)) == 1


async def test_who_waits_for_a_group_hears_of_its_end(
    session: Session, open_session: OpenSession
) -> None:
    await grouped(session, "a")
    other = await open_session()
    waiting = asyncio.create_task(other.wait_for_group("g"))
    await session.seal_group("g")
    await session.complete_task("a")
    async with asyncio.timeout(20):
        assert (await waiting).status == "complete"
        assert (await other.wait_for_group("g")).status == "complete"


def reads_of(session: Session, monkeypatch: pytest.MonkeyPatch) -> asyncio.Semaphore:
    """Is released each time that a session has been read."""
    looked, read = asyncio.Semaphore(0), session._read

    async def noted(consistency: Any) -> Any:
        state = await read(consistency)
        looked.release()
        return state

    monkeypatch.setattr(session, "_read", noted)
    return looked


async def test_who_waits_for_a_group_of_a_session_that_is_cleared_is_told(
    session: Session, store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await grouped(session, "a")
    looked = reads_of(session, monkeypatch)
    waiting = asyncio.create_task(session.wait_for_group("g"))
    await looked.acquire()
    await store.clear_session("s")
    async with asyncio.timeout(20):
        with pytest.raises(foldlog.NotFound):
            await waiting


async def test_who_waits_for_a_group_does_not_mistake_a_task_for_it(
    session: Session, open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    await session.create_group("flights", group_id="g")
    await session.spawn_task(task_id="g", group_id="g")
    await session.seal_group("g")
    waiter = await open_session()
    looked = reads_of(waiter, monkeypatch)
    waiting = asyncio.create_task(waiter.wait_for_group("g"))
    await looked.acquire()
    await session.start_task("g")
    await session.complete_task("g")
    assert (await waiting).status == "complete"


async def test_a_groups_strategy_is_that_of_its_tasks(session: Session) -> None:
    await grouped(session, "a", "b", merge_strategy=MergeStrategy.HUMAN_GATED)
    await session.complete_task("a", patch=patch("a"))
    assert list(session.pending_patches) == ["a"]
    await session.complete_task("b", patch=patch("b"), strategy=MergeStrategy.APPEND)
    assert len(session.context.llm_context["background_results"]) == 1


async def test_steering_a_cancel_is_the_same_as_cancelling(
    store: foldlog.Store, session: Session
) -> None:
    await family(session)
    event = steer("CANCEL", "root", event_id="stop", reason="enough")
    assert await session.steer(event)
    assert not await session.steer(event), "it was seen before"
    ids = {each.event_id for each in await store.list_steering("s")}
    assert ids == {"stop", "stop:child", "stop:grandchild", "stop:under-done"}
