"""A session's task and the execution that does it, on every backend."""

from __future__ import annotations

import asyncio

import pytest

import foldlog
from foldlog import TaskStatus
from foldlog.recovery import ExecutionPaused, StateStatus
from foldlog.sessions import IllegalTransition
from tests.conftest import OpenStore
from tests.recovery.running import Steps, loaded

STATE = "trip/main"


async def status(store: foldlog.Store) -> TaskStatus:
    [task] = await store.list_tasks("trip", consistency="strong")
    return TaskStatus(task.status)


async def booking(store: foldlog.Store, steps: Steps) -> str:
    async with store.task_execution("trip", "main") as run:
        await run.run("search", steps.giving("search", 7))
        answer: str = await run.ask("approve", "Book flight 7?")
        await run.run("book", steps.giving("book", None))
        return answer


async def test_a_task_pauses_and_completes_with_its_execution(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    for _ in range(2):
        with pytest.raises(ExecutionPaused):
            await booking(store, steps)
        assert await status(store) is TaskStatus.PAUSED
    other = await reopen()
    await other.recovery.answer(STATE, "approve", "yes")
    assert await booking(other, steps) == "yes"
    assert await status(store) is TaskStatus.COMPLETE
    assert (await loaded(store, STATE)).status is StateStatus.COMPLETED
    assert await booking(store, steps) == "yes"  # replayed
    assert {event.source for event in await store.list_steering("trip")} == {"system"}
    assert steps.called == ["search", "book"]


@pytest.fixture(params=[ConnectionError, asyncio.CancelledError])
def error(request: pytest.FixtureRequest) -> type[BaseException]:
    kind: type[BaseException] = request.param
    return kind


async def test_a_task_whose_execution_failed_is_tried_again(
    store: foldlog.Store, steps: Steps, error: type[BaseException]
) -> None:
    async def failing() -> None:
        async with store.task_execution("trip", "main") as run:
            assert await status(store) is TaskStatus.RUNNING
            await run.run("search", steps.giving("search", 7))
            raise error

    with pytest.raises(error):
        await failing()
    assert await status(store) is TaskStatus.RUNNING
    async with store.task_execution("trip", "main") as run:
        assert await run.run("search", steps.giving("search", 7)) == 7
    assert await status(store) is TaskStatus.COMPLETE
    assert steps.called == ["search"]


async def test_a_task_that_was_paused_or_ended_meanwhile_ends_once(store: foldlog.Store) -> None:
    async with store.session("trip") as session:
        async with store.task_execution("trip", "main"):
            await session.pause_task("main")
        assert await status(store) is TaskStatus.COMPLETE
    async with store.session("other") as session:
        async with store.task_execution("other", "main"):
            await session.complete_task("main", result={"seat": "12A"})
        [task] = await store.list_tasks("other", consistency="strong")
        assert (task.status, task.result) == (TaskStatus.COMPLETE, {"seat": "12A"})


async def test_a_task_that_was_given_up_is_not_done(store: foldlog.Store, steps: Steps) -> None:
    async with store.session("trip") as session:
        await session.spawn_task(task_id="main")
        await session.cancel_task("main")
    with pytest.raises(IllegalTransition):
        await booking(store, steps)
    assert steps.called == []
    assert await store.recovery.load_state(STATE) is None


async def test_an_execution_of_a_task_goes_with_its_session(
    store: foldlog.Store, steps: Steps
) -> None:
    with pytest.raises(ExecutionPaused):
        await booking(store, steps)
    await store.clear_session("trip")
    assert await store.recovery.load_state(STATE) is None
