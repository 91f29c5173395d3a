"""How queues stand, as `store.queues` says: what waits, who works at what, and what has failed."""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest

import foldlog
from foldlog import Worker, durable
from foldlog.runs import Run, RunFailed
from tests.workers.working import PATIENCE


@durable(attempts=1)
async def failing(run: Run, why: str) -> None:
    raise ValueError(why)


@pytest.mark.parametrize("shards", [1, 3])
async def test_a_worker_says_what_it_does_since_when_and_from_which_queues(shards: int) -> None:
    is_there, may_end = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        is_there.set()
        await may_end.wait()

    @durable(queue="gpu")
    async def waiting(run: Run) -> None:
        await run.step("wait", wait)

    async with foldlog.memory_store(shards=shards) as store:
        before = dt.datetime.now(dt.UTC)
        async with Worker(store, [waiting, failing], slots=3, queues=["gpu"]):
            run = await store.start(waiting, id="x", session_id="ann")
            await store.start(failing, "no", id="nobody's")
            await store.start("flying", id="misspelled", queue="gpu")
            await is_there.wait()
            [worker] = await store.queues.workers()
            assert (worker.slots, worker.queues) == (3, ("gpu",))
            [had] = worker.runs
            assert had[:4] == ("ann", "x", "waiting", "gpu")
            assert before <= had.since <= dt.datetime.now(dt.UTC)
            default, gpu = await store.queues.all()
            assert (default.waiting, default.held, default.workers) == (1, 0, 0)
            assert default.oldest is not None
            assert before <= default.oldest
            assert (gpu.waiting, gpu.held, gpu.workers) == (1, 1, 1)
            assert (default.unserved, gpu.unserved) == (("failing",), ("flying",))
            may_end.set()
            await run.result(timeout=PATIENCE)
        assert await store.queues.workers() == []


async def test_what_failed_last_comes_first_and_each_queue_counts_its_own(
    store: foldlog.Store,
) -> None:
    async with Worker(store, [failing]):
        for id, queue in [("a", "one"), ("b", "two"), ("c", "one")]:
            run = await store.start(failing, f"no {id}", id=id, queue=queue)
            with pytest.raises(RunFailed):
                await run.result(timeout=PATIENCE)
    found = await store.queues.failed()
    assert [(each.id, each.error) for each in found] == [
        (id, f"ValueError: no {id}") for id in ("c", "b", "a")
    ]
    assert sorted(each.since for each in found) == [each.since for each in reversed(found)]
    assert [each.id for each in await store.queues.failed("one", limit=1)] == ["c"]
    assert [(each.name, each.failed) for each in await store.queues.all()] == [
        ("one", 2),
        ("two", 1),
    ]
