"""A fork has the runs of its origin as they were, and goes on from there."""

from __future__ import annotations

import pytest

import foldlog
from foldlog import UnknownMoment
from foldlog.runs import Run, RunPaused
from tests.runs.running import Calls, R, S, status


async def work(store: foldlog.Store, calls: Calls, session: str = S, prompt: str = "one") -> str:
    async with store.run(R, session_id=session) as run:
        await run.step("a", calls.giving("a", 1))
        await run.step("b", calls.giving("b", 2))
        return str(await run.step("c", calls.giving("c", prompt), prompt))


@pytest.mark.parametrize(
    ("at", "done_again"),
    [
        (None, ""),
        ("c", ""),
        ("b", "c"),
        ("step 2", "c"),
        ("after step b", "c"),
        ("before step 3", "c"),
        ("before step b", "bc"),
        ("before step 1", "abc"),
    ],
)
async def test_a_fork_goes_on_from_its_moment(
    store: foldlog.Store, at: str | None, done_again: str
) -> None:
    calls = Calls()
    await work(store, calls)
    calls.made.clear()
    fork = await store.fork(S, at=at)
    prompt = "one" if at in (None, "c") else "two"
    assert await work(store, calls, fork, prompt) == prompt
    assert "".join(calls.made) == done_again
    assert await status(store, R, fork) == "COMPLETE"
    calls.made.clear()
    assert await work(store, calls) == "one"
    assert calls.made == []


async def test_a_fork_is_had_while_its_origin_is(store: foldlog.Store) -> None:
    calls = Calls()
    async with store.run(R, session_id=S) as run:
        await run.step("a", calls.giving("a", 1))
        fork = await store.fork(S, to="other")
        async with store.run(R, session_id=fork, wait=0) as forked:
            assert await forked.step("a", calls.giving("a", 2)) == 1
            await forked.step("b", calls.giving("b"))
        await run.step("b", calls.giving("b"))
    assert calls.made == ["a", "b", "b"]


async def test_large_results_are_read_in_a_fork(store: foldlog.Store) -> None:
    calls, large = Calls(), "x" * 600_000
    async with store.run(R, session_id=S) as run:
        await run.step("a", calls.giving("a", large))
    fork = await store.fork(S)
    async with store.run(R, session_id=fork) as run:
        assert await run.step("a", calls.giving("a")) == large
    assert calls.made == ["a"]


async def test_an_open_question_is_asked_in_the_fork_too(store: foldlog.Store) -> None:
    async def ask(run: Run) -> object:
        return await run.ask("buy", "Buy?", wait=0)

    async def attempt(session: str) -> object:
        async with store.run(R, session_id=session) as run:
            return await ask(run)

    with pytest.raises(RunPaused):
        await attempt(S)
    fork = await store.fork(S)
    with pytest.raises(RunPaused):
        await attempt(fork)
    [item] = await store.waiting(session_id=fork)
    await store.answer(item.id, "yes")
    assert await attempt(fork) == "yes"
    with pytest.raises(RunPaused):
        await attempt(S)


async def test_moments_that_are_none(store: foldlog.Store) -> None:
    await work(store, Calls())
    for at in ("step 9", "before step z", "nothing"):
        with pytest.raises(UnknownMoment):
            await store.fork(S, at=at)
