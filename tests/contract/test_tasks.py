"""Task state: upserted by task id, listed in order of first save."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import foldlog
from foldlog import TaskStatus, TaskType
from tests.conftest import OpenStore
from tests.support.build import MOMENT, task
from tests.support.exact import same


async def test_a_task_comes_back_as_it_was(store: foldlog.Store, reopen: OpenStore) -> None:
    elsewhere = timezone(timedelta(hours=5, minutes=30))
    saved = foldlog.TaskState(
        task_id="test-task",
        session_id="test-session",
        status=TaskStatus.RUNNING,
        task_type=TaskType.FOREGROUND,
        priority=-3,
        context_snapshot=foldlog.TaskContextSnapshot(
            session_id="test-session",
            task_id="test-task",
            trace_id="trace",
            spawned_from_task_id="parent",
            spawned_from_event_id="event",
            spawned_at=MOMENT,
            spawn_reason="because",
            query="what?",
            propagate_on_cancel="isolate",
            notify_on_complete=False,
            context_version=7,
            context_hash="abc123",
            llm_context={"a": [1, {"b": None}]},
            tool_context={"raw": b"\x00"},
            memory={"big": 10**40},
            artifacts=[{"id": "art_1"}],
        ),
        trace_id="trace",
        result={"answer": [float("inf"), b"\xff", (1, "two")]},
        error="none really",
        description="Test task",
        progress={"done": 1, "of": 3},
        created_at=MOMENT,
        updated_at=datetime(2024, 5, 16, 1, 2, 3, 4, tzinfo=elsewhere),
    )
    await store.save_task(saved)
    for reader in (store, await reopen()):
        [loaded] = await reader.list_tasks("test-session")
        assert loaded == saved
        assert loaded.status is TaskStatus.RUNNING
        assert loaded.task_type is TaskType.FOREGROUND
        assert same(loaded.result, saved.result)
        assert same(loaded.context_snapshot.tool_context, {"raw": b"\x00"})
        assert same(loaded.updated_at, saved.updated_at)


async def test_an_unknown_session_has_no_tasks(store: foldlog.Store) -> None:
    assert await store.list_tasks("nonexistent") == []


async def test_tasks_are_listed_in_order_of_first_save(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    for name in ("c", "a", "b"):
        await store.save_task(task(name))
    await store.save_task(task("a", status=TaskStatus.COMPLETE))
    await store.save_task(task("c", status=TaskStatus.FAILED))
    for reader in (store, await reopen()):
        listed = await reader.list_tasks("session")
        assert [(t.task_id, t.status) for t in listed] == [
            ("c", TaskStatus.FAILED),
            ("a", TaskStatus.COMPLETE),
            ("b", TaskStatus.PENDING),
        ]


async def test_saving_a_task_twice_keeps_one(store: foldlog.Store) -> None:
    await store.save_task(task())
    await store.save_task(task())
    assert await store.list_tasks("session") == [task()]


async def test_the_last_save_wins_even_when_it_repeats_an_earlier_one(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    statuses = [TaskStatus.RUNNING, TaskStatus.PAUSED, TaskStatus.RUNNING]
    for status in statuses:
        await store.save_task(task(status=status))
        assert await store.list_tasks("session") == [task(status=status)]
    assert await (await reopen()).list_tasks("session") == [task(status=TaskStatus.RUNNING)]


async def test_update_status_is_saved(store: foldlog.Store) -> None:
    state = task()
    await store.save_task(state)
    state.update_status(TaskStatus.CANCELLED)
    await store.save_task(state)
    [loaded] = await store.list_tasks("session")
    assert loaded.status is TaskStatus.CANCELLED
    assert loaded.created_at == MOMENT
    assert loaded.updated_at == state.updated_at
    assert loaded.updated_at.tzinfo == UTC


async def test_sessions_do_not_see_each_others_tasks(store: foldlog.Store) -> None:
    await store.save_task(task("same", "one", priority=1))
    await store.save_task(task("same", "two", priority=2))
    assert await store.list_tasks("one") == [task("same", "one", priority=1)]
    assert await store.list_tasks("two") == [task("same", "two", priority=2)]


async def test_another_store_sees_a_task_at_once(store: foldlog.Store, reopen: OpenStore) -> None:
    other = await reopen()
    for i in range(20):
        writer, reader = (store, other) if i % 2 else (other, store)
        await writer.save_task(task(priority=i))
        assert await reader.list_tasks("session") == [task(priority=i)]


async def test_concurrent_writers_lose_nothing_and_agree_on_the_order(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    writes = ((store, other)[i % 2].save_task(task(f"t{i}")) for i in range(100))
    await asyncio.gather(*writes)
    listed = [await reader.list_tasks("session") for reader in (store, other, await reopen())]
    assert {t.task_id for t in listed[0]} == {f"t{i}" for i in range(100)}
    assert len(listed[0]) == 100
    assert listed[1] == listed[0]
    assert listed[2] == listed[0]


async def test_tasks_belong_to_the_caller(store: foldlog.Store) -> None:
    state = task(progress={"steps": [1]}, result={"rows": [1]})
    await store.save_task(state)
    state.progress["steps"].append(2)
    state.result["rows"].append(2)
    state.context_snapshot.llm_context["late"] = True
    for _ in range(2):
        [loaded] = await store.list_tasks("session")
        assert loaded == task(progress={"steps": [1]}, result={"rows": [1]})
        loaded.progress["steps"].append(3)
        loaded.result["rows"].append(3)
        loaded.context_snapshot.memory["late"] = True
        loaded.status = TaskStatus.FAILED
