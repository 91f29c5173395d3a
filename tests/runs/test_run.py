"""A run: steps that are done once, recorded results, arguments, retries, usage, its task."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from typing import Any

import pytest

import foldlog
from foldlog import Misuse, NotFound, ReadOnlyStore, kinds
from foldlog.runs import (
    RunBusy,
    RunTakenOver,
    StepChanged,
    StepUnknown,
    UnreadableResult,
    Usage,
)
from tests.runs.running import Calls, R, S, die_in, status


@dataclasses.dataclass
class Flight:
    number: str
    fare: int


def search(city: str, limit: int = 3) -> list[Flight]:
    return [Flight(f"SK to {city}", 80)] * limit


async def test_it_is_a_task_of_its_session(store: foldlog.Store) -> None:
    calls = Calls()
    async with store.run(R, session_id=S, description="to Oslo") as run:
        assert await run.step("search", calls.giving("search", [1])) == [1]
        assert await status(store) == "RUNNING"
        run.result = {"flight": 7}
    [task] = await store.list_tasks(S)
    assert (task.task_id, task.status.value) == (R, "COMPLETE")
    assert (task.description, task.result) == ("to Oslo", {"flight": 7})
    assert S in await store.sessions()


async def test_without_a_session_it_has_one_of_its_name(store: foldlog.Store) -> None:
    async with store.run(R):
        pass
    assert await status(store, R, R) == "COMPLETE"


async def test_steps_are_done_once(store: foldlog.Store) -> None:
    calls = Calls()
    for _ in range(3):
        async with store.run(R, session_id=S) as run:
            assert await run.step("a", calls.giving("a", {"n": 1})) == {"n": 1}
            assert await run.step("b", calls.giving("b")) is None
    assert calls.made == ["a", "b"]
    assert await status(store) == "COMPLETE"


async def test_what_fails_is_done_again(store: foldlog.Store) -> None:
    calls = Calls()

    async def work() -> None:
        async with store.run(R, session_id=S) as run:
            await run.step("a", calls.giving("a"))
            await run.step("b", calls.raising("b", ValueError("no seats")))

    with pytest.raises(ValueError, match="no seats"):
        await work()
    [task] = await store.list_tasks(S)
    assert (task.status.value, task.error) == ("FAILED", "ValueError: no seats")
    async with store.run(R, session_id=S) as run:
        await run.step("a", calls.giving("a"))
        await run.step("b", calls.giving("b"))
    assert calls.made == ["a", "b", "b"]
    [task] = await store.list_tasks(S)
    assert (task.status.value, task.error) == ("COMPLETE", None)


async def test_a_plain_function_runs_in_a_thread(store: foldlog.Store) -> None:
    async with store.run(R, session_id=S) as run:
        assert await run.step("where", threading.get_ident) != threading.get_ident()


async def test_results_come_back_as_their_declared_type(store: foldlog.Store) -> None:
    for _ in range(2):
        async with store.run(R, session_id=S) as run:
            assert await run.step("search", search, "Oslo", limit=1) == [Flight("SK to Oslo", 80)]
    with pytest.raises(UnreadableResult):
        async with store.run(R, session_id=S) as run:
            await run.step("search", lambda city, limit: [], "Oslo", limit=1)


async def test_large_results_are_the_runs_own(store: foldlog.Store) -> None:
    calls, large = Calls(), "x" * 600_000
    for session in ("ann", "ben"):
        async with store.run(R, session_id=session) as run:
            await run.step("a", calls.giving("a", large))
    await store.clear_session("ann")
    async with store.run(R, session_id="ben") as run:
        assert await run.step("a", calls.giving("a", large)) == large
    assert calls.made == ["a", "a"]
    async with store.run(R, session_id="ann") as run:
        await run.step("a", calls.giving("a", 1))
    assert calls.made == ["a", "a", "a"]


async def test_other_arguments_raise_unless_the_caller_says(store: foldlog.Store) -> None:
    calls = Calls()

    async def find(city: str) -> str:
        calls.made.append(city)
        return city

    async with store.run(R, session_id=S) as run:
        await run.step("find", find, "Oslo")
    with pytest.raises(StepChanged) as changed:
        async with store.run(R, session_id=S) as run:
            await run.step("find", find, "Bergen")
    assert changed.value.recorded == {"city": "Oslo"}
    assert changed.value.given == {"city": "Bergen"}
    async with store.run(R, session_id=S) as run:
        assert await run.step("find", find, "Bergen", on_change="keep") == "Oslo"
    async with store.run(R, session_id=S) as run:
        assert await run.step("find", find, "Bergen", on_change="again") == "Bergen"
    async with store.run(R, session_id=S) as run:
        assert await run.step("find", find, "Bergen") == "Bergen"
    assert calls.made == ["Oslo", "Bergen"]


async def test_arguments_that_no_log_holds_and_long_ones(store: foldlog.Store) -> None:
    calls = Calls()
    for n, text in enumerate(("a" * 200_000, "a" * 200_000)):
        async with store.run(R, session_id=S) as run:
            await run.step("one", calls.giving("one"), object(), text)
            if n:
                [step] = await run.steps()
                assert len(step.arguments) < 200
    assert calls.made == ["one"]
    with pytest.raises(StepChanged):
        async with store.run(R, session_id=S) as run:
            await run.step("one", calls.giving("one"), object(), "b" * 200_000)


async def test_retries_and_timeouts(store: foldlog.Store) -> None:
    calls, attempts = Calls(), iter([ValueError(), ValueError(), None])

    async def flaky() -> str:
        calls.made.append("try")
        if (error := next(attempts)) is not None:
            raise error
        return "done"

    async with store.run(R, session_id=S) as run:
        assert await run.step("flaky", flaky, retries=2, pause=0.001) == "done"
        [step] = await run.steps()
        assert step.attempt == 3
        with pytest.raises(TimeoutError):
            await run.step("slow", asyncio.Event().wait, timeout=0.01)
    assert calls.made == ["try"] * 3


async def test_a_thread_that_goes_on_after_its_time_leaves_an_unknown_outcome(
    store: foldlog.Store,
) -> None:
    go_on = threading.Event()
    with pytest.raises(TimeoutError):
        async with store.run(R, session_id=S) as run:
            await run.step("slow", go_on.wait, timeout=0.01, retries=3)
    go_on.set()
    with pytest.raises(StepUnknown):
        async with store.run(R, session_id=S) as run:
            await run.step("slow", go_on.wait)


async def test_an_unknown_outcome_is_asked_for_and_settled(store: foldlog.Store) -> None:
    calls = Calls()
    for happened in (True, False):
        await die_in(store, f"pay {happened}")
        with pytest.raises(StepUnknown) as unknown:
            async with store.run(R, session_id=S) as run:
                await run.step(f"pay {happened}", calls.giving("pay", "paid"))
        assert await status(store) == "PAUSED"
        [item] = await store.waiting()
        assert (item.kind, item.session_id, item.task_id) == ("step", S, R)
        assert item.step == unknown.value.step == f"pay {happened}"
        assert item.id == unknown.value.id
        if happened:
            answered = await store.confirm(item.id, "confirmed", by="ben")
        else:
            answered = await store.retract(item.id, by="ben")
        assert answered.decision == ("confirmed" if happened else "retracted")
        state = await store.view(kinds.runs(S, R))
        assert state.steps[item.step].by == "ben"
        with pytest.raises(foldlog.AlreadyAnswered):
            await store.confirm(item.id)
        assert await store.waiting() == []
        async with store.run(R, session_id=S) as run:
            result = await run.step(f"pay {happened}", calls.giving("pay", "paid"))
        assert result == ("confirmed" if happened else "paid")
    assert calls.made == ["pay"]


async def test_what_may_be_repeated_is(store: foldlog.Store) -> None:
    calls = Calls()
    await die_in(store, "look")
    async with store.run(R, session_id=S) as run:
        assert await run.step("look", calls.giving("look", 1), repeatable=True) == 1


async def test_one_owner(store: foldlog.Store) -> None:
    async with store.run(R, session_id=S) as run:
        with pytest.raises(RunBusy) as busy:
            async with store.run(R, session_id=S, wait=0):
                pass
        assert busy.value.pid > 0
        assert busy.value.host
        opening = asyncio.ensure_future(_opened(store))
        await run.step("a", Calls().giving("a", 1))
    assert await opening == 1


async def _opened(store: foldlog.Store) -> Any:
    async with store.run(R, session_id=S) as run:
        return await run.step("a", Calls().giving("a", 2))


async def test_a_run_whose_session_is_cleared_ends(store: foldlog.Store) -> None:
    async def work() -> None:
        async with store.run(R, session_id=S) as run:
            await store.clear_session(S)
            await run.step("a", Calls().giving("a"))

    with pytest.raises(RunTakenOver):
        await work()
    assert await store.list_tasks(S) == []


async def test_restart_and_redo(store: foldlog.Store) -> None:
    calls = Calls()

    async def work(**options: Any) -> None:
        async with store.run(R, session_id=S, **options) as run:
            for each in "abc":
                await run.step(each, calls.giving(each))

    await work()
    await work(redo_from="b")
    assert "".join(calls.made) == "abcbc"
    await work(restart=True)
    assert "".join(calls.made) == "abcbcabc"
    with pytest.raises(NotFound):
        await work(redo_from="d")
    with pytest.raises(Misuse):
        await work(redo_from="a", restart=True)


async def test_steps_within_steps_and_usage(store: foldlog.Store) -> None:
    async with store.run(R, session_id=S) as run:

        async def model(prompt: str) -> str:
            run.usage(model="m", input_tokens=len(prompt), output_tokens=2, cost_usd=0.5)
            return prompt.upper()

        async def plan() -> str:
            run.usage(model="n", input_tokens=1)
            return await run.step("think", model, "hello", kind="model")

        assert await run.step("plan", plan, repeatable=True) == "HELLO"
        steps = {each.step: each for each in await run.steps()}
        assert (steps["think"].parent, steps["think"].kind) == ("plan", "model")
        assert (steps["think"].input_tokens, steps["think"].cost_usd) == (5, 0.5)
        assert await run.usages() == {"m": Usage(5, 2, 0.5), "n": Usage(1)}
        with pytest.raises(Misuse):
            run.usage(input_tokens=1)


async def test_a_run_says_in_which_of_its_steps_it_is_asked(store: foldlog.Store) -> None:
    async with store.run(R, session_id=S) as run, store.run("other", session_id=S) as other:

        async def inner() -> list[str]:
            return [run.within, other.within]

        async def outer() -> list[list[str]]:
            return [await run.step("inner", inner), [run.within, other.within]]

        assert await run.step("outer", outer) == [["inner", ""], ["outer", ""]]
        assert run.within == ""
        assert run.store is store


async def test_a_run_within_a_step_is_cancelled_with_it(store: foldlog.Store) -> None:
    async with store.run(R, session_id=S) as run:

        async def inner() -> None:
            async with store.run("inner", session_id=S) as within:
                await within.step("a", Calls().giving("a"))

        await run.step("outer", inner)
    [_, task] = await store.list_tasks(S)
    assert task.context_snapshot.spawned_from_task_id == R


async def test_misuse_is_named(store: foldlog.Store) -> None:
    run = store.run(R, session_id=S)
    with pytest.raises(Misuse, match="async with"):
        await run.step("a", Calls().giving("a"))
    async with run:
        await run.step("a", Calls().giving("a"))
        with pytest.raises(Misuse, match="different name"):
            await run.step("a", Calls().giving("a"))
        with pytest.raises(Misuse, match="function"):
            await run.step("b", "b")  # type: ignore[call-overload]
        with pytest.raises(Misuse, match="on_change"):
            await run.step("b", Calls().giving("b"), on_change="maybe")  # type: ignore[call-overload]
    with pytest.raises(Misuse):
        await run
    position = await store.position()
    with pytest.raises(ReadOnlyStore):
        await store.at(position).run(R)


async def test_a_rerun_after_rebuilding(store: foldlog.Store) -> None:
    calls = Calls()
    async with store.run(R, session_id=S) as run:
        await run.step("a", calls.giving("a", 1))
    assert (await store.rebuild()).differing == ()
    assert (await store.verify()).is_good
    async with store.run(R, session_id=S) as run:
        assert await run.step("a", calls.giving("a", 2)) == 1
