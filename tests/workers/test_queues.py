"""What holds the runs of a queue back: a key, a pause, a rate; and where a run waits."""

from __future__ import annotations

import asyncio
import time

import foldlog
from foldlog import Worker, durable
from foldlog.runs import Run
from foldlog.store.core import core_of
from foldlog.store.payloads import encode
from foldlog_projections.runs import queues
from foldlog_projections.runs.queues import Ticked, id_of
from tests.conftest import OpenStore
from tests.workers.working import (
    PATIENCE,
    doubled,
    handed_out,
    most_within,
    queues_are,
    working,
)


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


async def test_a_rate_is_kept_over_all_workers_and_what_it_holds_back_comes(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    @durable(queue="slow")
    async def going_on(run: Run, number: int) -> int:
        await run.wait_for("go")
        return number

    await store.queues.limit("slow", rate=5, seconds=0.25)
    async with working(store, going_on), working(await reopen(), going_on):
        runs = [await store.start(going_on, n) for n in range(15)]
        for each in runs:
            await each.send("go")
        assert [await each.result(timeout=PATIENCE) for each in runs] == [*range(15)]
    given = await handed_out(store, "slow")
    assert {id for _, id in given} == {id_of(each.session_id, each.id) for each in runs}
    assert most_within((at for at, _ in given), 0.25) <= 5


async def test_a_writer_whose_clock_is_ahead_holds_up_no_rate(store: foldlog.Store) -> None:
    core = core_of(store)
    key = queues.kind(core.namespace.key_on(0, queues.kind.name))
    said = encode(queues.kind, Ticked(), ts=time.time() + 3_600.0)
    await core.append_drafts((core.subject_of(key), [said]))
    await store.queues.limit("default", rate=1, seconds=0.1)
    async with Worker(store, [doubled]):
        runs = [await store.start(doubled, n) for n in range(3)]
        assert [await each.result(timeout=PATIENCE) for each in runs] == [0, 2, 4]


async def test_a_session_that_is_cleared_leaves_nothing_in_a_queue(store: foldlog.Store) -> None:
    await store.start(doubled, 1, id="x", session_id="ann")
    await store.clear_session("ann")
    await queues_are(store, lambda state: not [*state.entries()])
    async with Worker(store, [doubled]):
        run = await store.start(doubled, 2, id="x", session_id="ann")
        assert await run.result(timeout=PATIENCE) == 4
