"""Runs that a worker begins as they are started beside it: one append starts and opens them."""

from __future__ import annotations

import asyncio
import gc
from contextvars import ContextVar
from typing import Any

import pytest

import foldlog
from foldlog import AppendConflict, LogUnavailable, Misuse, Run, Worker, durable
from foldlog.store.core import core_of
from foldlog_projections.runs import runs
from foldlog_projections.runs.queues import Limited, State
from tests.conftest import OpenStore, leaving_no_task
from tests.workers.test_handing_out import Queues, offer, run
from tests.workers.working import PATIENCE, doubled, queues_are, reached, working


async def test_a_free_worker_begins_what_is_started_beside_it_in_the_same_append(
    store: foldlog.Store,
) -> None:
    async with Worker(store, [doubled]):
        await queues_are(store, lambda state: bool(state.workers))
        started = await store.start(doubled, 4, id="a", session_id="s")
        assert (await started.status()).value in ("RUNNING", "COMPLETE")
        assert await started.result(timeout=PATIENCE) == 8
    said = [each.content["status"] for each in await store.list_updates("s")]
    assert said == ["RUNNING", "COMPLETE"]  # it has never waited


async def test_what_is_started_beside_a_busier_worker_goes_to_the_other_one(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    async with working(store, doubled, slots=2), working(await reopen(), doubled, slots=3):
        await queues_are(store, lambda state: len(state.workers) == 2)
        started = await store.start(doubled, 4, id="a", session_id="s")
        assert await started.result(timeout=PATIENCE) == 8
    said = [each.content["status"] for each in await store.list_updates("s")]
    assert said == ["PENDING", "RUNNING", "COMPLETE"]


async def test_a_worker_lets_go_of_what_the_queue_holds_back_when_it_is_there(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Worker(store, [doubled]):
        await queues_are(store, lambda state: bool(state.workers))
        await store.queues.pause("default")
        monkeypatch.setattr(State, "begins_with", lambda *_: True)  # it has not heard of it
        started = await store.start(doubled, 4, id="a", session_id="s")
        key = runs.kind("s", "a")
        async with asyncio.timeout(PATIENCE):
            async for _ in core_of(store).advances(key):
                if not (await store.view(key)).tenure:
                    break
        assert not (await store.view(key)).steps
        await queues_are(store, lambda state: not state.held and bool(state.waiting))
        await store.queues.resume("default")
        assert await started.result(timeout=PATIENCE) == 8


async def test_what_cannot_be_started_takes_no_slot(store: foldlog.Store) -> None:
    async with Worker(store, [doubled], slots=1):
        await queues_are(store, lambda state: bool(state.workers))
        async with store.run("a", session_id="s") as other:
            other.result = 1
        with pytest.raises(Misuse):
            await store.start(doubled, 4, id="a", session_id="s")
        for _ in range(3):  # the last two are known
            started = await store.start(doubled, 4, id="b", session_id="s")
            assert await started.result(timeout=PATIENCE) == 8


async def _starting(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, append: Any
) -> asyncio.Task[Any]:
    """Start a run beside a free worker, by another append."""
    await queues_are(store, lambda state: bool(state.workers))
    monkeypatch.setattr(core_of(store), "append_at_once", append)
    return asyncio.create_task(store.start(doubled, 4, id="a", session_id="s"))


async def test_a_start_that_is_cancelled_leaves_a_run_that_is_done_or_none(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = core_of(store).append_at_once

    async def cut_short(*args: Any, **kwargs: Any) -> Any:
        await append(*args, **kwargs)
        raise asyncio.CancelledError

    async with Worker(store, [doubled]):
        starting = await _starting(store, monkeypatch, cut_short)
        await asyncio.wait([starting])
        monkeypatch.undo()
        assert starting.cancelled()
        assert await store.queues.handle("a", session_id="s").result(timeout=PATIENCE) == 8


async def test_a_worker_that_is_cancelled_at_that_moment_leaves_the_run_to_the_next(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, appending, go_on = core_of(store).append_at_once, asyncio.Event(), asyncio.Event()

    async def held_up(*args: Any, **kwargs: Any) -> Any:
        appending.set()
        await go_on.wait()
        return await append(*args, **kwargs)

    async with working(store, doubled):
        starting = await _starting(store, monkeypatch, held_up)
        await appending.wait()
        monkeypatch.undo()
        asyncio.get_running_loop().call_later(0, go_on.set)  # the worker is being cancelled
    run = await starting
    async with Worker(store, [doubled]):
        assert await run.result(timeout=PATIENCE) == 8


async def test_what_was_sent_for_a_start_that_is_cancelled_comes_too_late(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = core_of(store).append_at_once
    sent = list[Any]()

    async def on_its_way(appends: Any, **_: Any) -> Any:
        monkeypatch.undo()
        sent.append(appends)
        raise asyncio.CancelledError

    async with Worker(store, [doubled]):
        starting = await _starting(store, monkeypatch, on_its_way)
        await asyncio.wait([starting])
        assert starting.cancelled()
        run = store.queues.handle("a", session_id="s")
        await reached(store, run, "COMPLETE")
        with pytest.raises(AppendConflict):
            await append(*sent)
        assert await run.result(timeout=PATIENCE) == 8


async def test_a_worker_that_cannot_read_what_was_started_beside_it_tries_again(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def not_read(*_: Any) -> Any:
        monkeypatch.undo()
        raise LogUnavailable("away")

    async with Worker(store, [doubled]):
        await queues_are(store, lambda state: bool(state.workers))
        monkeypatch.setattr(Worker, "_job", not_read)
        started = await store.start(doubled, 4, id="a", session_id="s")
        assert await started.result(timeout=PATIENCE) == 8


request: ContextVar[str] = ContextVar("request", default="none")


@durable
async def asked_by(run: Run) -> str:
    return request.get()


async def test_what_is_begun_here_is_in_the_context_of_its_worker(store: foldlog.Store) -> None:
    async with Worker(store, [asked_by]):
        await queues_are(store, lambda state: bool(state.workers))
        request.set("this one")
        assert await (await store.start(asked_by)).result(timeout=PATIENCE) == "none"


def test_a_program_that_ends_while_it_starts_a_run_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    appending = asyncio.Event()

    async def never(*_: Any, **__: Any) -> Any:
        appending.set()
        await asyncio.Event().wait()

    async def program() -> None:
        store = foldlog.memory_store()
        working = asyncio.create_task(Worker(store, [doubled]).run())
        await queues_are(store, lambda state: bool(state.workers))
        monkeypatch.setattr(core_of(store), "append_at_once", never)
        starting = asyncio.create_task(store.start(doubled, 4, id="a", session_id="s"))
        await appending.wait()
        assert not working.done()
        assert not starting.done()

    asyncio.run(program())
    assert not [each for each in caplog.records if each.name == "asyncio"]


async def test_a_worker_that_is_cancelled_leaves_nothing_that_looks_for_more(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, looking = Worker._take, asyncio.Future[Any]()

    async def held_up(*args: Any) -> None:
        current = asyncio.current_task()
        if current is not None and current.get_name().startswith("foldlog run"):
            looking.set_result(current)
            await asyncio.Event().wait()
        await take(*args)

    monkeypatch.setattr(Worker, "_take", held_up)
    async with working(store, doubled):
        await (await store.start(doubled, 4)).result(timeout=PATIENCE)
        looks = await looking
    assert looks.cancelled()


async def test_a_worker_that_is_cancelled_is_given_nothing_more(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    async with working(store, doubled):
        await queues_are(store, lambda state: bool(state.workers))
    await queues_are(store, lambda state: not state.workers)
    async with Worker(store, [asked_by]):  # which would not know what to do with it
        started = await store.start(doubled, 4, id="a", session_id="s")
        async with Worker(await reopen(), [doubled]):
            assert await started.result(timeout=PATIENCE) == 8


def test_a_store_that_is_closed_under_its_runs_leaves_nothing_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def program(turns: int) -> None:
        async with leaving_no_task():
            store = foldlog.memory_store()
            working = asyncio.create_task(Worker(store, [doubled]).run())
            await queues_are(store, lambda state: bool(state.workers))
            starting = asyncio.create_task(store.start(doubled, 4, id="a", session_id="s"))
            for _ in range(turns):
                await asyncio.sleep(0)
            await store.close()
            found = await asyncio.gather(starting, working, return_exceptions=True)
            assert isinstance(found[1], foldlog.StoreClosed)
        gc.collect()

    for turns in range(0, 40, 3):
        asyncio.run(program(turns))
    assert not [each for each in caplog.records if each.name == "asyncio"]


def test_a_wish_decides_between_equals_only() -> None:
    q = Queues()
    q.say(offer("a", 2), offer("b", 2), run("1", wish="b"))
    assert (q.has("a"), q.has("b")) == ([], ["1"])
    q.say(run("2", wish="b"))
    assert (q.has("a"), q.has("b")) == (["2"], ["1"])
    q.say(run("3", wish="elsewhere"))
    assert q.waits() == []


def test_a_wish_begins_nothing_that_a_queue_holds_back() -> None:
    q = Queues()
    wished = run("1", wish="a")
    assert not q.state.begins_with(wished)
    q.say(offer("a", 1))
    assert q.state.begins_with(wished)
    q.say(Limited("q", paused=True))
    assert not q.state.begins_with(wished)
    q.say(wished)
    assert (q.has("a"), q.waits()) == ([], ["1"])
