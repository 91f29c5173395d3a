"""Runs that start runs: their results, their ends, and many at once."""

from __future__ import annotations

import pytest

import foldlog
from foldlog import RunCancelled, RunFailed, Worker, durable
from foldlog.runs import Run, worker
from tests.workers.working import PATIENCE, doubled, queues_are, reached


async def test_children_give_their_results_and_take_no_worker_from_their_parent(
    store: foldlog.Store,
) -> None:
    @durable
    async def parent(run: Run, count: int) -> int:
        handles = [await run.start(doubled, number) for number in range(count)]
        return sum(await run.gather(*handles))

    async with Worker(store, [parent, doubled], slots=1):
        run = await store.start(parent, 5, id="p")
        assert await run.result(timeout=PATIENCE) == 20
    names = {task.task_id for task in await store.list_tasks("p")}
    assert names == {"p", *(f"p/doubled {n}" for n in range(1, 6))}


async def test_what_becomes_of_children_reaches_their_parent(store: foldlog.Store) -> None:
    @durable
    async def bad(run: Run) -> None:
        raise ValueError("no")

    @durable
    async def waiting(run: Run) -> None:
        await run.wait_for("never")

    @durable
    async def parent(run: Run) -> str:
        one, two = await run.start(bad, id="bad"), await run.start(waiting, id="waits")
        found = []
        for each in (one, two):
            try:
                await run.gather(each)
            except (RunFailed, RunCancelled) as error:
                found.append(type(error).__name__)
        return " ".join(found)

    async with Worker(store, [parent, bad, waiting]):
        run = await store.start(parent, id="p")
        child = store.queues.handle("waits", session_id="p")
        await queues_are(store, lambda state: bool(state.failed))
        await reached(store, child, "PAUSED")
        await child.cancel()
        assert await run.result(timeout=PATIENCE) == "RunFailed RunCancelled"


async def test_only_handles_are_gathered(store: foldlog.Store) -> None:
    async with store.run("r", session_id="s") as run:
        with pytest.raises(foldlog.Misuse, match="gather takes"):
            await run.gather("child")  # type: ignore[arg-type]


async def test_a_child_that_is_cancelled_fails_a_parent_that_does_not_expect_it(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_PAUSE", 0.01)

    @durable
    async def waiting(run: Run) -> None:
        await run.wait_for("never")

    @durable(attempts=2)
    async def parent(run: Run) -> None:
        await run.gather(await run.start(waiting, id="child"))

    async with Worker(store, [parent, waiting]):
        run = await store.start(parent, id="p")
        await reached(store, run, "PAUSED")
        await store.queues.handle("child", session_id="p").cancel()
        with pytest.raises(RunFailed, match="RunCancelled: run 'child'"):
            await run.result(timeout=PATIENCE)


@pytest.mark.parametrize("count", [30, pytest.param(1_000, marks=pytest.mark.long)])
async def test_a_run_starts_many_and_gathers_what_they_give(
    store: foldlog.Store, count: int
) -> None:
    @durable
    async def parent(run: Run) -> int:
        return sum(await run.gather(*[await run.start(doubled, n) for n in range(count)]))

    async with Worker(store, [parent, doubled]):
        run = await store.start(parent, id="p")
        assert await run.result(timeout=10 * PATIENCE) == count * (count - 1)


async def test_cancelling_a_run_cancels_what_it_has_started(store: foldlog.Store) -> None:
    @durable
    async def waiting(run: Run) -> None:
        await run.sleep(hours=1)

    @durable
    async def parent(run: Run) -> None:
        await run.gather(*[await run.start(waiting) for _ in range(3)])

    async with Worker(store, [parent, waiting]):
        run = await store.start(parent, id="p")
        await reached(store, run, "PAUSED")
        await run.cancel("enough")
        with pytest.raises(RunCancelled):
            await run.result(timeout=PATIENCE)
    assert {each.status.value for each in await store.list_tasks("p")} == {"CANCELLED"}
