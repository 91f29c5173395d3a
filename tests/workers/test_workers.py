"""Runs that workers do: started anywhere, once for each id, to their ends."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import math
import time
from functools import partial
from typing import Any

import pytest

import foldlog
from foldlog import IdTaken, Misuse, RunFailed, Worker, durable
from foldlog.log.port import OnRecord
from foldlog.runs import Run
from foldlog.store.core import core_of
from foldlog.views.view import View
from foldlog_projections.runs import runs
from tests.conftest import OpenStore
from tests.runs.running import Calls
from tests.workers.working import PATIENCE, double, doubled, queues_are, reached


@dataclasses.dataclass
class Trip:
    city: str
    days: int = 1


@durable(name="plan a trip")
async def plan(run: Run, trip: Trip) -> Trip:
    return dataclasses.replace(trip, days=await run.step("days", double, trip.days))


async def test_a_worker_does_what_was_started_and_gives_its_result(store: foldlog.Store) -> None:
    async with Worker(store, [doubled, plan]):
        run = await store.start(doubled, 4, again=True)
        trip = await store.start(plan, Trip("Oslo", 2), id="oslo", session_id="ann")
        assert await run.result(timeout=PATIENCE) == 16
        assert await trip.result(timeout=PATIENCE) == Trip("Oslo", 4)
    [task] = await store.list_tasks("ann")
    assert (task.task_id, task.status.value, task.description) == (
        "oslo",
        "COMPLETE",
        "plan a trip",
    )


async def test_what_was_started_before_there_was_a_worker_is_done_by_the_first(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    run = await (await reopen()).start("doubled", number=4)
    assert (await run.status()).value == "PENDING"
    async with Worker(store, [doubled]):
        assert await run.result(timeout=PATIENCE) == 8


async def test_what_was_removed_and_started_anew_is_done_as_it_was_started(
    store: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, views = await reopen(), core_of(store).hot_views
    hints = views._hints

    def of_no_run(of: View[Any]) -> OnRecord:
        return (lambda _: None) if of.projection is runs.kind else hints(of)

    monkeypatch.setattr(views, "_hints", of_no_run)  # no push of a run comes
    async with Worker(store, [doubled, plan]):
        run = await other.start(doubled, 4, id="r", session_id="ann")
        assert await run.result(timeout=PATIENCE) == 8
        await other.clear_session("ann")
        run = await other.start(doubled, 5, id="r", session_id="ann")
        assert await run.result(timeout=PATIENCE) == 10
        await other.clear_session("ann")
        trip = await other.start(plan, Trip("Oslo", 2), id="r", session_id="ann")
        assert await trip.result(timeout=PATIENCE) == Trip("Oslo", 4)


async def test_the_same_id_is_the_same_run_and_other_arguments_are_refused(
    store: foldlog.Store,
) -> None:
    calls = Calls()

    @durable
    async def once(run: Run, number: int) -> Any:
        return await run.step("call", calls.giving("called", number))

    async with Worker(store, [once]):
        runs = [await store.start(once, 1, id="x") for _ in range(3)]
        assert [await each.result(timeout=PATIENCE) for each in runs] == [1, 1, 1]
        with pytest.raises(IdTaken, match="run 'x' of session 'x' does once"):
            await store.start(once, 2, id="x")
    assert calls.made == ["called"]


async def test_arguments_that_do_not_fit_are_refused_before_anything_is_stored(
    store: foldlog.Store,
) -> None:
    with pytest.raises(Misuse, match="doubled was started with other arguments"):
        await store.start(doubled, 1, 2, 3, id="x")
    assert await store.list_tasks("x") == []


async def test_a_function_that_is_not_durable_is_not_started(store: foldlog.Store) -> None:
    undecorated: Any = doubled.function
    for start in (store.start, partial(store.queues.schedule, "x", "* * * * *")):
        with pytest.raises(Misuse, match="no durable function: decorate it"):
            await start(undecorated, 1)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, 1e12])
async def test_a_time_that_never_comes_is_refused(store: foldlog.Store, seconds: float) -> None:
    with pytest.raises(Misuse, match="delay is seconds"):
        await store.start(doubled, 1, delay=seconds)
    async with store.run("x") as run:
        with pytest.raises(Misuse, match="a sleep is seconds"):
            await run.sleep(seconds)
        with pytest.raises(Misuse, match="timeout is seconds"):
            await run.wait_for("payment", timeout=seconds)


async def test_a_worker_that_could_not_do_as_it_is_asked_is_refused(store: foldlog.Store) -> None:
    with pytest.raises(Misuse, match="there twice"):
        Worker(store, [doubled, durable(name="doubled")(plan.function)])
    with pytest.raises(Misuse, match="list of names"):
        Worker(store, [doubled], queues="gpu")
    with pytest.raises(foldlog.InvalidId):
        Worker(store, [doubled], queues=[""])
    with pytest.raises(Misuse, match="lease"):
        Worker(store, [doubled], lease=math.nan)


async def test_what_a_function_raises_is_logged_with_its_place(
    store: foldlog.Store, caplog: pytest.LogCaptureFixture
) -> None:
    @durable(attempts=1)
    async def failing(run: Run) -> None:
        raise ValueError("no train")

    async with Worker(store, [failing]):
        run = await store.start(failing, id="x")
        with pytest.raises(RunFailed, match="no train"):
            await run.result(timeout=PATIENCE)
    assert "in failing" in caplog.text


async def test_a_function_that_raises_is_tried_and_then_stands_among_what_failed(
    store: foldlog.Store,
) -> None:
    calls, is_mended = Calls(), False

    @durable(attempts=2)
    async def failing(run: Run) -> str:
        await run.step("first", calls.giving("first"))
        if not is_mended:
            await run.step("second", calls.raising("second", ValueError("no")))
        return "done"

    async with Worker(store, [failing]):
        run = await store.start(failing, id="x")
        with pytest.raises(RunFailed, match="ValueError: no"):
            await run.result(timeout=PATIENCE)
        assert calls.made == ["first", "second", "second"]
        [failed] = await store.queues.failed()
        assert (failed.id, failed.function, failed.error) == ("x", "failing", "ValueError: no")
        is_mended = True
        await store.queues.send_again("x")
        assert await run.result(timeout=PATIENCE) == "done"
        assert await store.queues.failed() == []
    assert calls.made == ["first", "second", "second"]


async def test_a_question_takes_no_worker_and_its_answer_wakes_the_run(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    @durable
    async def asking(run: Run) -> Any:
        return await run.ask("buy", "Buy?")

    async with Worker(store, [asking], slots=1):
        runs = [await store.start(asking, id=id) for id in ("a", "b")]
        for each in runs:
            await reached(store, each, "PAUSED")
        await queues_are(store, lambda state: not [*state.entries()])
        other = await reopen()
        for item in await other.waiting():
            await other.answer(item.id, item.session_id)
        assert [await each.result(timeout=PATIENCE) for each in runs] == ["a", "b"]


async def test_a_question_that_nobody_answers_ends_with_its_default(store: foldlog.Store) -> None:
    @durable
    async def asking(run: Run) -> Any:
        return await run.ask("buy", "Buy?", timeout=1.0, default="no")

    async with Worker(store, [asking]):
        run = await store.start(asking)
        assert await run.result(timeout=PATIENCE) == "no"


async def test_a_sleep_takes_no_worker_and_ends_at_its_time(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    calls = Calls()

    @durable
    async def sleeping(run: Run) -> float:
        await run.step("before", calls.giving("before"))
        began = time.time()
        await run.sleep(2.5)
        await run.sleep(0.01, name="short")
        return time.time() - began

    began = time.time()
    async with Worker(store, [sleeping]):
        run = await (await reopen()).start(sleeping, id="x")
        await reached(store, run, "PAUSED")
        await queues_are(store, lambda state: not [*state.entries()])
        await run.result(timeout=PATIENCE)
    assert time.time() - began >= 2.0  # not how fast, but not before its time
    assert calls.made == ["before"]


async def test_what_begins_later_waits_for_its_time(store: foldlog.Store) -> None:
    with pytest.raises(Misuse, match="time zone"):
        await store.start(doubled, 1, at=dt.datetime(2026, 1, 1))
    async with Worker(store, [doubled]):
        run = await store.start(doubled, 1, delay=1.0, id="x")
        assert (await run.status()).value == "PENDING"
        past = await store.start(doubled, 2, at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
        assert await past.result(timeout=PATIENCE) == 4
        assert await run.result(timeout=PATIENCE) == 2


async def test_a_start_that_is_repeated_puts_nothing_off(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    @durable
    async def sleeping(run: Run) -> str:
        await run.sleep(3.0)
        return "slept"

    async with Worker(store, [sleeping, doubled]):
        later = await store.start(doubled, 1, delay=1.0, id="later")
        asleep = await store.start(sleeping, id="asleep")
        await reached(store, asleep, "PAUSED")
        for each in (store, await reopen()):
            await each.start(doubled, 1, delay=3_600.0, id="later")
            await each.start(sleeping, delay=3_600.0, id="asleep")
            with pytest.raises(IdTaken):
                await each.start(doubled, 2, delay=3_600.0, id="later")
        assert await later.result(timeout=PATIENCE) == 2
        assert await asleep.result(timeout=PATIENCE) == "slept"


@pytest.mark.parametrize("when", ["before", "after"])
async def test_what_a_run_is_sent_reaches_it_also_if_it_comes_first(
    store: foldlog.Store, when: str
) -> None:
    @durable
    async def paid(run: Run) -> Any:
        return await run.wait_for("payment", timeout=60)

    run = await store.start(paid, id="x")
    if when == "before":
        assert await run.send("payment", 80)
    async with Worker(store, [paid]):
        if when == "after":
            await reached(store, run, "PAUSED")
            assert await store.waiting() == []  # nobody is asked
            assert await store.queues.handle("x").send("payment", 80)
        assert await run.result(timeout=PATIENCE) == 80
        assert not await run.send("payment", 90)


async def test_a_function_that_cancels_itself_is_tried_again_and_fails(
    store: foldlog.Store,
) -> None:
    calls = Calls()

    @durable(attempts=2)
    async def cancelled(run: Run) -> None:
        calls.made.append("called")
        raise asyncio.CancelledError

    async with Worker(store, [cancelled]):
        run = await store.start(cancelled, id="x")
        with pytest.raises(RunFailed, match="cancelled from within"):
            await run.result(timeout=PATIENCE)
    assert len(calls.made) == 2


async def test_the_run_of_a_fork_goes_on_there_when_it_is_started_there(
    store: foldlog.Store,
) -> None:
    calls = Calls()

    @durable
    async def booked(run: Run, city: str) -> list[Any]:
        found = await run.step("search", calls.giving("search", f"to {city}"))
        return [found, await run.ask("seat", "Which seat?")]

    async with Worker(store, [booked]):
        run = await store.start(booked, "Oslo", id="trip", session_id="ann")
        await reached(store, run, "PAUSED")
        fork = await store.fork("ann", at=await store.position())
        other = await store.start(booked, "Oslo", id="trip", session_id=fork)
        for each, answer in (run, "window"), (other, "aisle"):
            [asked] = await store.waiting(session_id=each.session_id)
            await store.answer(asked.id, answer)
            assert await each.result(timeout=PATIENCE) == ["to Oslo", answer]
        assert await (await store.start(booked, "Oslo", id="trip", session_id=fork)).result() == [
            "to Oslo",
            "aisle",
        ]
    assert calls.made == ["search"]


async def test_attempts_count_anew_behind_each_step_that_is_done(store: foldlog.Store) -> None:
    calls = Calls()

    @durable(attempts=2)
    async def failing(run: Run) -> int:
        for number in range(5):
            await run.step(f"{number}", calls.giving(f"{number}"))
            if calls.made[-1] == f"{number}":
                calls.made.append("raised")
                raise ValueError(number)
        return len(calls.made)

    async with Worker(store, [failing]):
        run = await store.start(failing, id="x")
        assert await run.result(timeout=PATIENCE) == 10


async def test_a_pause_frees_the_worker_and_resuming_goes_on(store: foldlog.Store) -> None:
    calls, may_go_on = Calls(), asyncio.Event()

    @durable
    async def stepping(run: Run) -> str:
        await run.step("one", calls.giving("one"))
        await may_go_on.wait()
        await run.step("two", calls.giving("two"))
        return "done"

    async with Worker(store, [stepping], slots=1), store.session("x") as session:
        run = await store.start(stepping, id="x")
        await reached(store, run, "RUNNING")
        await session.pause_task("x")
        may_go_on.set()
        await queues_are(store, lambda state: not [*state.entries()])
        assert (await run.status()).value == "PAUSED"
        await session.resume_task("x")
        assert await run.result(timeout=PATIENCE) == "done"
    assert calls.made == ["one", "two"]


async def test_a_worker_that_stops_hands_its_runs_on_at_their_next_step(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    calls, is_there, may_end = Calls(), asyncio.Event(), asyncio.Event()

    async def long(*_: Any) -> None:
        calls.made.append("long")
        is_there.set()
        await may_end.wait()

    @durable
    async def stepping(run: Run) -> str:
        await run.step("long", long)
        await run.step("two", calls.giving("two"))
        return "done"

    run = await store.start(stepping, id="x")
    worker = Worker(store, [stepping])
    async with worker:
        await is_there.wait()
        worker.stop()
        may_end.set()
    assert calls.made == ["long"]
    assert [each.waiting for each in await store.queues.all()] == [1]
    other = await reopen()
    async with Worker(other, [stepping]):
        assert await run.result(timeout=PATIENCE) == "done"
    assert calls.made == ["long", "two"]


async def test_a_worker_goes_on_with_what_a_program_has_opened_and_left(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    run = await other.start(doubled, 4, id="x")

    async def leave() -> None:
        async with other.run("x"):
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await leave()
    async with Worker(store, [doubled]):
        assert await run.result(timeout=PATIENCE) == 8


async def test_what_a_run_says_is_read_live_and_afterwards_at_an_offset(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    @durable
    async def talking(run: Run) -> None:
        await run.say("begins")
        await run.step("tokens", tokens, run)
        await run.wait_for("end")
        await run.say("ends")

    async def tokens(run: Run) -> None:
        for each in ("a", "b"):
            await run.say(each)

    run = await (await reopen()).start(talking, id="x")
    heard = []
    async with Worker(store, [talking]):
        async with asyncio.timeout(PATIENCE):
            async for item in run.stream():
                heard.append(item)
                if item.record.data == "b":
                    await run.send("end")
    assert [item.record.data for item in heard] == ["begins", "a", "b", "ends"]
    later = [item.record.data async for item in run.stream(after=heard[1].id)]
    assert later == ["b", "ends"]


async def test_a_store_has_one_worker_at_a_time(store: foldlog.Store) -> None:
    async with Worker(store, [doubled]) as working:
        await queues_are(store, lambda state: bool(state.workers))
        with pytest.raises(Misuse, match="one worker"):
            await Worker(store, [plan]).run()
        working.stop()
    async with Worker(store, [plan]):
        run = await store.start(plan, Trip("Oslo"))
        assert await run.result(timeout=PATIENCE) == Trip("Oslo", 2)


async def test_a_store_that_is_closed_ends_its_worker(reopen: OpenStore) -> None:
    store = await reopen()
    working = asyncio.create_task(Worker(store, [doubled]).run())
    await queues_are(store, lambda state: bool(state.workers))
    await store.close()
    with pytest.raises(foldlog.StoreClosed):
        async with asyncio.timeout(PATIENCE):
            await working


def test_what_is_no_durable_function_is_refused() -> None:
    store = foldlog.memory_store()
    with pytest.raises(Misuse, match="async def"):
        durable(lambda run: run)  # type: ignore[arg-type, return-value]
    with pytest.raises(Misuse, match="durable"):
        Worker(store, [double])  # type: ignore[list-item]
    with pytest.raises(Misuse):
        Worker(store, [doubled], slots=0)


async def test_a_run_that_waits_is_in_no_memory_of_its_worker(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    @durable
    async def waiting(run: Run) -> None:
        await run.step("one", double, 1)
        await run.wait_for("never")

    def views() -> int:
        return sum(1 for _ in core_of(store).hot_views._hot)

    other = await reopen()
    async with Worker(store, [waiting]):
        counts = []
        for id in ("a", "b", "c"):
            await reached(other, await other.start(waiting, id=id), "PAUSED")
            while is_busy(id):  # noqa: ASYNC110 - nobody tells us
                await asyncio.sleep(0)
            counts.append(views())
    assert counts[0] == counts[1] == counts[2]


def is_busy(id: str) -> bool:
    """Whether a worker has not let go yet of a run."""
    return any(task.get_name() == f"foldlog run {id}" for task in asyncio.all_tasks())
