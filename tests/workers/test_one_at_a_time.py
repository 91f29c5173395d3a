"""One run at a time: also where one is cancelled, or taken from a worker that then goes on."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Any

import pytest

import foldlog
from foldlog import Durable, RunCancelled, Worker, durable
from foldlog.runs import Run
from foldlog.runs.process import process_of
from foldlog.runs.tenure import Tenure
from foldlog.store.core import core_of
from foldlog.store.payloads import encode
from foldlog_projections.runs import queues, runs
from foldlog_projections.runs.queues import Gone
from tests.conftest import OpenStore
from tests.workers.working import PATIENCE, queues_are, reached, working


class Bodies:
    """Which runs are in a step that lasts until `may_end`. `most`: of them at once."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.inside = set[str]()
        self.most = 0
        self._moved = asyncio.Event()

    async def step(self, name: str) -> None:
        self.inside.add(name)
        self.most = max(self.most, len(self.inside))
        self._moved.set()
        try:
            await self.may_end.wait()
        finally:
            self.inside.discard(name)

    def function(self) -> Durable[..., str]:
        """A function that is in such a step."""

        @durable
        async def long(run: Run) -> str:
            await run.step("long", self.step, run.name)
            return run.name

        return long

    async def has(self, name: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while name not in self.inside:
                self._moved.clear()
                await self._moved.wait()


@pytest.mark.parametrize("limit", ["at_once", "per_key", "slots"])
async def test_no_other_run_begins_in_the_place_of_one_whose_code_still_goes_on(
    store: foldlog.Store, limit: str
) -> None:
    bodies = Bodies()
    long = bodies.function()
    if limit != "slots":
        await store.queues.limit("default", **{limit: 1})
    async with Worker(store, [long], slots=1 if limit == "slots" else 8):
        first = await store.start(long, id="a", key="ann")
        await bodies.has("a")
        second = await store.start(long, id="b", key="ann")
        await first.cancel("no more")
        with pytest.raises(RunCancelled):  # its starter need not wait for the code
            await first.result(timeout=PATIENCE)
        [queue] = await store.queues.all()
        bodies.may_end.set()
        assert (queue.held, queue.waiting) == (1, 1)
        assert await second.result(timeout=PATIENCE) == "b"
        await queues_are(store, lambda state: not [*state.entries()])
    assert bodies.most == 1


async def test_what_waits_leaves_as_it_is_cancelled(store: foldlog.Store) -> None:
    @durable
    async def waiting(run: Run) -> None:
        await run.wait_for("never")

    async with Worker(store, [waiting]):
        run = await store.start(waiting, id="a")
        await reached(store, run, "PAUSED")
        await run.cancel()
        assert [*await store.queues.all()] == []
    run = await store.start(waiting, id="b")
    await run.cancel()
    assert [*await store.queues.all()] == []


async def test_the_place_of_a_cancelled_run_is_free_when_its_worker_has_died(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    bodies = Bodies()
    long = bodies.function()
    other = await reopen()
    await store.queues.limit("default", at_once=1)
    dying = asyncio.create_task(Worker(other, [long], lease=1.0).run())
    first = await store.start(long, id="a")
    await bodies.has("a")
    second = await store.start(long, id="b")
    await first.cancel()
    dying.cancel()
    with suppress(asyncio.CancelledError):
        await dying
    bodies.may_end.set()
    async with Worker(store, [long]):
        assert await second.result(timeout=PATIENCE) == "b"
        await queues_are(store, lambda state: not [*state.entries()])


async def test_a_program_that_has_a_cancelled_run_leaves_its_queue(store: foldlog.Store) -> None:
    @durable
    async def nothing(run: Run) -> None:
        pass

    run = await store.start(nothing, id="a")
    opened = await store.run("a")
    await run.cancel()
    assert [each.held for each in await store.queues.all()] == [1]
    with pytest.raises(RunCancelled):
        await opened.close()
    assert [*await store.queues.all()] == []


async def test_a_worker_that_was_held_for_dead_as_it_opened_a_run_begins_it_beside_no_other(
    store: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was given a run, and that was taken from it again, before it has opened it."""
    bodies, other = Bodies(), await reopen()
    long = bodies.function()
    opens, opening, may_open = Tenure._take, asyncio.Event(), asyncio.Event()

    async def held_up(self: Tenure, *args: Any) -> None:
        if self._store is other:
            opening.set()
            await may_open.wait()
        await opens(self, *args)

    monkeypatch.setattr(Tenure, "_take", held_up)
    await store.queues.limit("default", at_once=1)
    first = await store.start(long, id="a")
    async with working(other, long):
        await opening.wait()
        second = await store.start(long, id="b", priority=1)
        async with working(store, long):
            await queues_are(store, lambda state: len(state.workers) == 2)
            core = core_of(store)
            key = queues.kind(core.namespace.key_on(0, queues.kind.name))
            gone = encode(queues.kind, Gone(process_of(other).id))
            await core.append_drafts((core.subject_of(key), [gone]))
            await queues_are(store, lambda state: bool(state.of(process_of(store).id)))
            await bodies.has("b")
            may_open.set()
            has_begun = await settled(store, "a")
            bodies.may_end.set()
            assert not has_begun
            for each in (first, second):
                assert await each.result(timeout=PATIENCE) == each.id
    assert bodies.most == 1


async def settled(store: foldlog.Store, run: str) -> bool:
    """Whether a run that is opened begins a step, or is let go of."""
    key = runs.kind(run, run)
    async with asyncio.timeout(PATIENCE):
        async with aclosing(core_of(store).advances(key)) as advances:
            async for _ in advances:
                state = await store.view(key)
                if state.steps or (state.epoch and not state.tenure):
                    return bool(state.steps)
    raise AssertionError("unreachable")
