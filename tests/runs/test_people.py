"""Orders to runs, and questions of runs: each takes effect once, and is on record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import foldlog
from foldlog import AlreadyAnswered, LogUnavailable, WaitingExpired
from foldlog.models import SteeringEventType, TaskStatus
from foldlog.runs import QuestionExpired, RunCancelled, RunPaused, StepUnknown
from foldlog.runs.orders import Orders
from foldlog.runs.tenure import Tenure
from tests.runs.running import Calls, R, S, begun, die_in, next_waiting, status, steer


async def test_cancel_lets_the_step_in_flight_end_and_no_other_begin(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, go_on, is_seen, gave = Calls(), asyncio.Event(), asyncio.Event(), list[str]()
    look = Orders._cancel_hard

    async def looked(self: Orders) -> None:
        await look(self)
        is_seen.set()

    monkeypatch.setattr(Orders, "_cancel_hard", looked)

    async def slow() -> str:
        await go_on.wait()
        return "done"

    async def work() -> None:
        async with store.run(R, session_id=S) as run:
            flying = asyncio.ensure_future(run.step("slow", slow))
            await begun(store)
            await steer(store, SteeringEventType.CANCEL, reason="too dear")
            await is_seen.wait()  # while the step is under way: only a hard one ends it
            go_on.set()
            gave.append(await flying)
            assert [each.phase for each in await run.steps()] == ["done"]
            await run.step("next", calls.giving("next"))

    with pytest.raises(RunCancelled, match="too dear"):
        await work()
    assert gave == ["done"]
    assert calls.made == []
    assert await status(store) == "CANCELLED"
    with pytest.raises(RunCancelled):
        async with store.run(R, session_id=S):
            pass
    async with store.run(R, session_id=S, restart=True) as run:
        await run.step("slow", calls.giving("slow"))
    assert calls.made == ["slow"]
    assert await status(store) == "COMPLETE"


async def test_a_hard_cancel_ends_the_step_in_flight(store: foldlog.Store) -> None:
    async def work() -> None:
        async with store.run(R, session_id=S) as run:
            flying = asyncio.ensure_future(run.step("for ever", asyncio.Event().wait))
            await begun(store)
            await steer(store, SteeringEventType.CANCEL, hard=True)
            async with asyncio.timeout(30):
                await flying

    with pytest.raises(RunCancelled):
        await work()
    assert await status(store) == "CANCELLED"


async def test_a_cancelled_run_does_not_end_complete(store: foldlog.Store) -> None:
    with pytest.raises(RunCancelled):
        async with store.run(R, session_id=S):
            await steer(store, SteeringEventType.CANCEL)
    assert await status(store) == "CANCELLED"


async def test_a_pause_holds_the_next_step_until_it_is_over(store: foldlog.Store) -> None:
    calls = Calls()
    async with store.run(R, session_id=S) as run:
        await steer(store, SteeringEventType.PAUSE)
        waits = asyncio.ensure_future(run.step("a", calls.giving("a", 1)))
        [item] = await store.waiting()
        assert (item.kind, item.task_id) == ("task", R)
        assert calls.made == []
        await steer(store, SteeringEventType.RESUME)
        assert await waits == 1
    assert await status(store) == "COMPLETE"


async def test_a_hard_cancel_is_obeyed_by_a_run_that_followed_no_log(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    outages, look = ["one"], Tenure.status

    async def status(tenure: Tenure, **given: Any) -> TaskStatus | None:
        if outages:
            raise LogUnavailable(f"away: {outages.pop()}")
        return await look(tenure, **given)

    async def work() -> None:
        async with store.run(R, session_id=S) as run:
            flying = asyncio.ensure_future(run.step("for ever", asyncio.Event().wait))
            await begun(store)
            monkeypatch.setattr(Tenure, "status", status)
            await steer(store, SteeringEventType.CANCEL, hard=True)
            async with asyncio.timeout(10):
                await flying

    with pytest.raises(RunCancelled):
        await work()
    assert outages == []


async def test_an_order_of_the_same_process_is_obeyed_by_a_run_that_follows_no_log(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def follow(*_: object) -> None:
        return

    monkeypatch.setattr(Orders, "_follow", follow)
    calls = Calls()

    async def work() -> None:
        async with store.run(R, session_id=S) as run:
            await run.step("a", calls.giving("a"))
            await store.queues.handle(R, session_id=S).cancel()
            await run.step("b", calls.giving("b"))

    with pytest.raises(RunCancelled):
        await work()
    assert calls.made == ["a"]


async def test_a_pause_behind_the_last_step_stops_nothing(store: foldlog.Store) -> None:
    async with store.run(R, session_id=S) as run:
        await run.step("last", Calls().giving("last"))
        await steer(store, SteeringEventType.PAUSE)
    assert await status(store) == "COMPLETE"
    assert await store.waiting() == []
    async with store.run(R, session_id=S, wait=0):  # nobody has it
        pass


async def test_a_run_whose_task_somebody_has_ended_is_let_go(store: foldlog.Store) -> None:
    async with store.run(R, session_id=S), store.session(S) as session:
        await session.fail_task(R, error="enough")
    assert await status(store) == "FAILED"
    async with store.run(R, session_id=S, wait=0):
        pass


async def test_a_pause_holds_the_next_owner_too(store: foldlog.Store) -> None:
    async with store.run(R, session_id=S):
        pass
    run = await store.run(R, session_id=S)
    await steer(store, SteeringEventType.PAUSE)
    with pytest.raises(asyncio.CancelledError):
        async with run:
            raise asyncio.CancelledError
    async with store.run(R, session_id=S) as second:
        waits = asyncio.ensure_future(second.step("a", Calls().giving("a", 1)))
        assert await status(store) == "PAUSED"
        await steer(store, SteeringEventType.RESUME)
        assert await waits == 1


async def test_an_order_to_pause_stands_when_the_answer_comes(store: foldlog.Store) -> None:
    calls = Calls()
    await die_in(store, "pay")

    async def pay() -> object:
        async with store.run(R, session_id=S) as run:
            return await run.step("pay", calls.giving("pay"))

    async def pay_paused() -> None:
        async with store.run(R, session_id=S) as run:
            await steer(store, SteeringEventType.PAUSE)
            await run.step("pay", calls.giving("pay"))

    with pytest.raises(StepUnknown):
        await pay_paused()
    for item in await store.waiting():
        if item.kind == "step":
            await store.retract(item.id)
    assert await status(store) == "PAUSED"
    paying = asyncio.ensure_future(pay())
    [item] = await store.waiting()
    assert item.kind == "task"
    assert calls.made == []
    await store.answer(item.id, True)
    await paying
    assert calls.made == ["pay"]


async def test_words_reach_the_code_once_also_when_it_runs_again(store: foldlog.Store) -> None:
    heard = []
    for n in range(2):
        async with store.run(R, session_id=S) as run:
            looks = [[e.payload.get("text") for e in await run.inbox()]]
            if n == 0:
                await steer(store, SteeringEventType.USER_MESSAGE, text="hello")
                await steer(store, SteeringEventType.REDIRECT, instruction="north")
            looks.append([e.payload.get("text") for e in await run.inbox()])
            orders = [e.payload.get("instruction") for e in await run.orders()]
            looks.append([e.payload.get("text") for e in await run.inbox()])
        heard.append((looks, orders))
    assert heard[0] == ([[], ["hello"], []], ["north"])
    assert heard[1] == heard[0]


async def test_what_was_said_is_heard_by_one_of_two_that_listen(store: foldlog.Store) -> None:
    async with store.run(R, session_id=S) as run:
        await steer(store, SteeringEventType.USER_MESSAGE, text="hello")
        heard = await asyncio.gather(run.inbox(), run.inbox())
    assert sorted(len(each) for each in heard) == [0, 1]


@pytest.mark.parametrize("between", ["step", "ask"])
async def test_what_was_said_later_is_not_heard_earlier_in_a_rerun(
    store: foldlog.Store, between: str
) -> None:
    async def work() -> list[list[object]]:
        heard = []
        async with store.run(R, session_id=S) as run:
            for n in range(2):
                heard.append([each.payload.get("text") for each in await run.inbox()])
                if between == "step":
                    await run.step(f"decide {n}", Calls().giving("decide", n), n, heard[-1])
            await run.ask("buy", wait=0)
            heard.append([each.payload.get("text") for each in await run.inbox()])
        return heard

    with pytest.raises(RunPaused):
        await work()
    await steer(store, SteeringEventType.USER_MESSAGE, text="hello")
    [item] = await store.waiting()
    await store.answer(item.id, "yes")
    for _ in range(2):
        assert await work() == [[], [], ["hello"]]


async def test_what_was_heard_before_a_step_is_heard_again_when_it_is_done_again(
    store: foldlog.Store,
) -> None:
    async def work(**options: str) -> list[list[str]]:
        async with store.run(R, session_id=S, **options) as run:  # type: ignore[arg-type]
            heard = list[list[str]]()
            for step in "abc":
                heard.append([each.payload["text"] for each in await run.inbox()])
                await run.step(step, Calls().giving(step), *heard[-1])
                if not options:
                    await steer(store, SteeringEventType.USER_MESSAGE, text=f"after {step}")
            return heard

    assert await work() == [[], ["after a"], ["after b"]]
    assert await work(redo_from="c") == [[], ["after a"], ["after b"]]
    assert await work(redo_from="b") == [[], ["after a"], ["after b", "after c"]]


@pytest.mark.parametrize("has_happened", [True, False])
async def test_an_order_to_pause_stands_behind_a_settled_step(
    store: foldlog.Store, has_happened: bool
) -> None:
    await die_in(store, "pay")
    with pytest.raises(StepUnknown):
        async with store.run(R, session_id=S) as run:
            await run.step("pay", Calls().giving("pay"))
    [item] = await store.waiting()
    await (store.confirm(item.id) if has_happened else store.retract(item.id))
    await steer(store, SteeringEventType.PAUSE)
    async with store.run(R, session_id=S):
        assert await status(store) == "PAUSED"


async def test_a_question_is_answered_while_the_run_waits(store: foldlog.Store) -> None:
    async with store.run(R, session_id=S) as run:
        waits = asyncio.ensure_future(run.ask("buy", {"fare": 80}))
        item = await next_waiting(store)
        assert (item.kind, item.session_id, item.task_id, item.step) == ("question", S, R, "buy")
        assert item.asked == {"fare": 80}
        assert [each.id for each in await store.waiting(session_id=S)] == [item.id]
        assert (await store.answer(item.id, "yes")).decision == "answered"
        assert await waits == "yes"
        with pytest.raises(AlreadyAnswered):
            await store.answer(item.id, "no")
    async with store.run(R, session_id=S) as run:
        assert await run.ask("buy", {"fare": 80}) == "yes"
    assert await store.waiting() == []


async def test_a_run_that_does_not_wait_is_one_entry_and_goes_on(store: foldlog.Store) -> None:
    with pytest.raises(RunPaused) as paused:
        async with store.run(R, session_id=S) as run:
            await run.ask("buy", "Buy?", wait=0)
    assert (paused.value.step, paused.value.question) == ("buy", "Buy?")
    assert await status(store) == "PAUSED"
    [item] = await store.waiting()
    assert item.kind == "question"
    assert item.id == paused.value.id
    with pytest.raises(RunPaused):
        async with store.run(R, session_id=S) as run:
            await run.ask("buy", "Buy?", wait=0)
    [again] = await store.waiting()
    assert again.id == item.id
    await store.answer(item.id, True)
    assert await store.waiting() == []
    assert await status(store) == "RUNNING"
    async with store.run(R, session_id=S) as run:
        assert await run.ask("buy", "Buy?", wait=0) is True
    assert await status(store) == "COMPLETE"


async def test_steps_beside_a_question_end_before_the_run_lets_go(store: foldlog.Store) -> None:
    calls, go_on = Calls(), asyncio.Event()

    async def slow() -> str:
        calls.made.append("slow")
        await go_on.wait()
        return "done"

    async def work() -> None:
        async with store.run(R, session_id=S) as run:
            await asyncio.gather(run.step("slow", slow), run.ask("buy", wait=0))

    working = asyncio.ensure_future(work())
    await next_waiting(store)
    go_on.set()
    with pytest.raises(RunPaused):
        await working
    async with store.run(R, session_id=S) as run:
        assert await run.step("slow", slow) == "done"
    assert calls.made == ["slow"]


async def test_a_question_expires(
    store: foldlog.Store, advance_clock: Callable[[float], None]
) -> None:
    with pytest.raises(RunPaused):
        async with store.run(R, session_id=S) as run:
            await run.ask("buy", "Buy?", timeout=60, wait=0)
    [item] = await store.waiting()
    assert item.until is not None
    advance_clock(61)
    assert await store.waiting() == []
    with pytest.raises(WaitingExpired):
        await store.answer(item.id, True)
    with pytest.raises(QuestionExpired):
        async with store.run(R, session_id=S) as run:
            await run.ask("buy", "Buy?", timeout=60)
    for _ in range(2):
        async with store.run(R, session_id=S) as run:
            assert await run.ask("buy", "Buy?", timeout=60, default="no") == "no"


async def test_a_cancelled_run_asks_nothing(store: foldlog.Store) -> None:
    asked = []

    async def work() -> None:
        async with store.run(R, session_id=S) as run:
            waits = asyncio.ensure_future(run.ask("buy"))
            asked.append(await next_waiting(store))
            await steer(store, SteeringEventType.CANCEL)
            async with asyncio.timeout(30):
                await waits

    with pytest.raises(RunCancelled):
        await work()
    assert await store.waiting() == []
    with pytest.raises(AlreadyAnswered):
        await store.answer(asked[0].id, True)


async def test_another_question_under_a_name_replaces_the_first(store: foldlog.Store) -> None:
    for fare in (80, 90):
        with pytest.raises(RunPaused):
            async with store.run(R, session_id=S) as run:
                await run.ask("buy", fare, wait=0)
    [item] = await store.waiting()
    assert item.asked == 90
