"""Runs that began with other code: they go on with it, or say what changed."""

from __future__ import annotations

from typing import Any

import pytest

import foldlog
from foldlog import RunFailed, Worker, durable
from foldlog.runs import Durable, Run
from tests.runs.running import Calls
from tests.workers.working import PATIENCE, reached


def job(version: str, calls: Calls, *steps: str) -> Durable[..., Any]:
    """A function of a version: its steps, and a wait behind the first one."""

    @durable(name="job", version=version, attempts=1)
    async def function(run: Run) -> str:
        for step in steps:
            if step.startswith("?"):
                if await run.patched(step[1:]):
                    await run.step(step, calls.giving(step))
                continue
            await run.step(step, calls.giving(f"{version} {step}"))
            if step == "a":
                await run.wait_for("go on")
        return version

    return function


async def begun(store: foldlog.Store, function: Durable[..., Any]) -> foldlog.Handle[Any]:
    async with Worker(store, [function]):
        run = await store.start(function, id="x")
        await reached(store, run, "PAUSED")
    await run.send("go on")
    return run


async def test_a_run_goes_on_with_the_version_that_it_began_with(store: foldlog.Store) -> None:
    calls = Calls()
    old, new = job("1", calls, "a", "b"), job("2", calls, "a", "c")
    run = await begun(store, old)
    async with Worker(store, [old, new]):
        assert await run.result(timeout=PATIENCE) == "1"
        assert await (await store.start(new, id="y")).status() is not None
    assert calls.made[:2] == ["1 a", "1 b"]


async def test_another_version_that_comes_to_another_step_says_which(store: foldlog.Store) -> None:
    calls = Calls()
    run = await begun(store, job("1", calls, "a", "b"))
    async with Worker(store, [job("2", calls, "first", "a", "b")]):
        with pytest.raises(RunFailed, match=r"CodeChanged.*'a' on record.*'first'"):
            await run.result(timeout=PATIENCE)
    assert calls.made == ["1 a"]


async def test_another_version_goes_on_where_its_steps_are_the_same_so_far(
    store: foldlog.Store,
) -> None:
    calls = Calls()
    run = await begun(store, job("1", calls, "a", "b"))
    async with Worker(store, [job("2", calls, "a", "c")]):
        assert await run.result(timeout=PATIENCE) == "2"
    assert calls.made == ["1 a", "2 c"]


async def test_a_patch_is_taken_by_runs_that_come_to_it_and_by_no_other(
    store: foldlog.Store,
) -> None:
    calls = Calls()
    run = await begun(store, job("1", calls, "a", "b"))
    async with Worker(store, [job("2", calls, "a", "?late", "b")]):
        assert await run.result(timeout=PATIENCE) == "2"
    assert calls.made == ["1 a", "?late", "2 b"]

    calls.made.clear()
    other = await begun_as(store, job("3", calls, "?early", "a", "b"), "y", calls)
    assert other == ["?early", "3 a", "3 b"]


async def begun_as(
    store: foldlog.Store, function: Durable[..., Any], id: str, calls: Calls
) -> list[str]:
    async with Worker(store, [function]):
        run = await store.start(function, id=id)
        await run.send("go on")
        await run.result(timeout=PATIENCE)
    return calls.made


async def test_a_patch_before_what_is_on_record_is_not_taken(store: foldlog.Store) -> None:
    calls = Calls()
    run = await begun(store, job("1", calls, "a", "b"))
    async with Worker(store, [job("2", calls, "?early", "a", "b")]):
        assert await run.result(timeout=PATIENCE) == "2"
    assert calls.made == ["1 a", "2 b"]
