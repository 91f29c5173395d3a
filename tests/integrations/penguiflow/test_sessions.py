"""StreamingSession and SessionManager: tasks, kill -9, steering and cursors."""

from __future__ import annotations

import asyncio
from typing import Any

from penguiflow.sessions import (
    SessionManager,
    StreamingSession,
    TaskResult,
    TaskStatus,
    TaskType,
    UpdateType,
)
from penguiflow.state import StateUpdate
from penguiflow.steering import SteeringEvent, SteeringEventType, sanitize_steering_event

from foldlog.integrations.penguiflow import PenguiFlowStateStore
from tests.integrations.penguiflow.conftest import OpenStore
from tests.support.workers import StartWorker


async def add(runtime: Any) -> TaskResult:
    runtime.emit_update(UpdateType.PROGRESS, {"label": "adding"})
    return TaskResult(payload={"sum": 3}, digest=["added"])


async def test_a_background_task_and_its_updates_are_kept(open_store: OpenStore) -> None:
    session = await SessionManager(state_store=open_store()).get_or_create("s1")
    result = await session.run_task(add, task_type=TaskType.BACKGROUND, task_id="a", query="1+2")
    assert result.payload == {"sum": 3}
    await session.close()

    restarted = await SessionManager(state_store=open_store()).get_or_create("s1")
    [task] = await restarted.list_tasks()
    assert (task.task_id, task.status, task.task_type) == (
        "a",
        TaskStatus.COMPLETE,
        TaskType.BACKGROUND,
    )
    assert task.result == {"sum": 3}
    assert task.context_snapshot.query == "1+2"
    updates = await restarted.list_updates()
    assert {type(update) for update in updates} == {StateUpdate}
    assert [update.update_type for update in updates].index(UpdateType.PROGRESS) > 0
    await restarted.close()


async def test_a_session_is_hydrated_after_kill_9(
    open_store: OpenStore, start_worker: StartWorker
) -> None:
    worker = await start_worker("work", "s1")
    told = await worker.hear()
    await worker.kill()

    session = await SessionManager(state_store=open_store()).get_or_create("s1")
    tasks = {task.task_id: task for task in await session.list_tasks()}
    assert {id_: task.status for id_, task in tasks.items()} == {
        "short": TaskStatus.COMPLETE,
        "endless": TaskStatus.RUNNING,
    }
    assert tasks["short"].result == {"sum": 3}
    kept = await session.list_updates()
    assert [[u.update_id, u.task_id, u.update_type.value] for u in kept[: len(told)]] == told
    await session.close()


async def test_updates_are_backfilled_from_a_cursor(open_store: OpenStore) -> None:
    store = open_store()
    updates = [
        StateUpdate(
            session_id="s1", task_id=f"t{n % 2}", update_type=UpdateType.PROGRESS, content={"n": n}
        )
        for n in range(20)
    ]
    for update in updates:
        await store.save_update(update)

    session = StreamingSession("s1", state_store=open_store())
    seen = await session.subscribe(since_id=updates[4].update_id)
    replayed = [await anext(seen) for _ in updates[5:]]
    assert replayed == updates[5:]
    fresh = updates[0].model_copy(update={"update_id": "fresh", "content": "live"})
    session._publish(fresh)
    assert await anext(seen) == fresh
    await seen.aclose()
    # A task of its own, and so begun after the one by which the session saves.
    listing = asyncio.create_task(session.list_updates(since_id=updates[-1].update_id))
    assert await listing == [fresh]
    odd = await session.list_updates(task_id="t1", since_id=updates[0].update_id, limit=3)
    assert odd == [updates[1], updates[3], updates[5]]
    await session.close()


async def test_steering_reaches_the_task_and_the_log(open_store: OpenStore) -> None:
    heard = asyncio.Event()

    async def listen(runtime: Any) -> TaskResult:
        event = await runtime.steering.next()
        heard.set()
        return TaskResult(payload={"told": event.payload["text"]})

    store = open_store()
    session = StreamingSession("s1", state_store=store)
    task_id = await session.spawn_task(listen, task_type=TaskType.BACKGROUND, task_id="listener")
    event = SteeringEvent(
        session_id="s1",
        task_id=task_id,
        event_type=SteeringEventType.USER_MESSAGE,
        payload={"text": "use euros", "active_tasks": [task_id]},
    )
    assert await session.steer(event) is True
    assert await session.steer(event) is False  # the session has seen it
    await heard.wait()
    await session._task_handles[task_id]
    await session.close()

    await store.save_steering(event)  # and so has the log
    [kept] = await open_store().list_steering("s1")
    assert kept == event
    assert type(kept) is SteeringEvent
    assert type(kept.event_type) is SteeringEventType
    [task] = await open_store().list_tasks("s1")
    assert task.result == {"told": "use euros"}


async def test_steering_is_kept_as_penguiflow_sanitises_it(store: PenguiFlowStateStore) -> None:
    payloads: list[dict[str, Any]] = [
        {"text": "x" * 10_000},
        {"items": list(range(1000)), "deep": {"a": {"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}}},
        {f"key{n}": n for n in range(500)},
        {f"key{n}": "y" * 4000 for n in range(60)},
        {"text": "ünïcödé " * 3000, "n": None, "f": 1.5},
    ]
    events = [
        SteeringEvent(
            session_id="s1", task_id="t", event_type=SteeringEventType.PAUSE, payload=payload
        )
        for payload in payloads
    ]
    for event in events:
        await store.save_steering(event)
    kept = await store.list_steering("s1")
    assert kept == [sanitize_steering_event(event) for event in events]
