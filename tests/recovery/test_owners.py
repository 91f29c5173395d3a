"""Of two who have an execution one can append, on every backend."""

from __future__ import annotations

import asyncio

import pytest

import foldlog
from foldlog.recovery import ExecutionTakenOver
from tests.conftest import OpenStore
from tests.recovery.running import Steps, history, loaded
from tests.support.stores import appended


async def test_who_was_taken_over_appends_nothing_any_more(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    other = await reopen()
    first = store.recovery.execution("s")
    await first.__aenter__()
    await first.run("a", steps.giving("a", 1))
    async with other.recovery.execution("s") as second:
        before = await appended(store)
        with pytest.raises(ExecutionTakenOver):
            await first.run("b", steps.giving("b by the first", 2))
        with pytest.raises(ExecutionTakenOver):
            await first.save_checkpoint()
        with pytest.raises(ExecutionTakenOver):
            await first.ask("c")
        assert await appended(store) == before
        assert await second.run("b", steps.giving("b by the second", 3)) == 3
    with pytest.raises(ExecutionTakenOver):
        await first.__aexit__(None, None, None)
    assert steps.called == ["a", "b by the second"]
    assert history(await loaded(store, "s")) == [("a", "completed"), ("b", "completed")]


async def test_a_step_under_way_when_it_is_taken_over_is_unknown_to_the_new_owner(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    other = await reopen()

    async def taken_over() -> str:
        async with other.recovery.execution("s") as second:
            assert second.unknown == ("pay",)
        return "paid"

    with pytest.raises(ExecutionTakenOver, match=r"'s' was taken over by") as lost:
        async with store.recovery.execution("s") as first:
            await first.run("pay", taken_over)
    assert lost.value.__context__ is None  # one short traceback: leaving adds no second error
    assert history(await loaded(store, "s")) == [("pay", "started")]


async def test_one_of_two_who_take_over_at_once_ends_up_with_it(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    other = await reopen()
    runs = [store.recovery.execution("s"), other.recovery.execution("s")]
    await asyncio.gather(*(run.__aenter__() for run in runs))
    outcomes = await asyncio.gather(
        *(run.run("a", steps.giving("a", 1)) for run in runs), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["ExecutionTakenOver", "int"]
    assert steps.called == ["a"]


async def test_an_execution_whose_state_was_deleted_does_not_bring_it_back(
    store: foldlog.Store, steps: Steps
) -> None:
    run = await store.recovery.execution("s").__aenter__()
    await run.run("a", steps.giving("a", 1))
    await store.recovery.delete_state("s")
    with pytest.raises(ExecutionTakenOver, match="was deleted"):
        await run.run("b", steps.giving("b", 1))
    with pytest.raises(ExecutionTakenOver):
        await run.__aexit__(None, None, None)
    assert await store.recovery.load_state("s") is None
    assert steps.called == ["a"]


async def test_an_execution_that_began_anew_has_another_owner(
    store: foldlog.Store, steps: Steps
) -> None:
    first = store.recovery.execution("s")
    await first.__aenter__()
    await store.recovery.delete_state("s")
    async with store.recovery.execution("s") as second:
        with pytest.raises(ExecutionTakenOver):
            await first.run("a", steps.giving("a", 1))
        await second.run("a", steps.giving("a", 2))
    assert steps.called == ["a"]
