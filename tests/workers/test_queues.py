"""What holds the runs of a queue back: a key, a pause, a rate; and where a run waits."""

from __future__ import annotations

import asyncio
import time

import foldlog
from foldlog import Worker, durable
from foldlog.runs import Run
from tests.conftest import OpenStore
from tests.workers.working import PATIENCE, doubled, queues_are


async def test_a_function_that_is_started_by_its_name_waits_in_its_own_queue(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    @durable(queue="gpu")
    async def trained(run: Run) -> str:
        return "trained"

    await store.queues.pause("gpu")
    async with Worker(store, [trained]):
        starter = await reopen()
        await queues_are(starter, lambda state: bool(state.workers))
        run = await starter.start("trained", id="x")
        await queues_are(store, lambda state: "gpu" in state.waiting)
        await store.queues.resume("gpu")
        assert await run.result(timeout=PATIENCE) == "trained"


async def test_of_one_key_one_goes_on_at_a_time(store: foldlog.Store) -> None:
    going, most = 0, 0

    @durable(queue="users")
    async def counted(run: Run) -> None:
        nonlocal going, most
        going += 1
        most = max(most, going)
        await run.step("give way", asyncio.sleep, 0)
        going -= 1

    await store.queues.limit("users", per_key=1)
    async with Worker(store, [counted]):
        runs = [await store.start(counted, key="ann") for _ in range(5)]
        for each in runs:
            await each.result(timeout=PATIENCE)
    assert most == 1


async def test_a_queue_that_is_paused_begins_nothing(store: foldlog.Store) -> None:
    await store.queues.pause("default")
    async with Worker(store, [doubled]):
        run = await store.start(doubled, 1)
        await queues_are(store, lambda state: bool(state.workers) and not state.held)
        [queue] = await store.queues.all()
        assert (queue.waiting, queue.paused, queue.held) == (1, True, 0)
        await store.queues.resume("default")
        assert await run.result(timeout=PATIENCE) == 2


async def test_a_rate_is_kept_and_what_it_holds_back_comes(store: foldlog.Store) -> None:
    began: list[float] = []

    @durable(queue="slow")
    async def noting(run: Run) -> None:
        began.append(time.time())

    await store.queues.limit("slow", rate=2, seconds=1.0)
    async with Worker(store, [noting]):
        runs = [await store.start(noting) for _ in range(4)]
        for each in runs:
            await each.result(timeout=PATIENCE)
    assert began[2] - began[0] > 0.9


async def test_a_session_that_is_cleared_leaves_nothing_in_a_queue(store: foldlog.Store) -> None:
    await store.start(doubled, 1, id="x", session_id="ann")
    await store.clear_session("ann")
    await queues_are(store, lambda state: not [*state.entries()])
    async with Worker(store, [doubled]):
        run = await store.start(doubled, 2, id="x", session_id="ann")
        assert await run.result(timeout=PATIENCE) == 4
