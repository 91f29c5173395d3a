"""Executions that wait for the user, on every backend."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import foldlog
from foldlog.recovery import (
    EventType,
    ExecutionPaused,
    StateStatus,
)
from tests.conftest import OpenStore
from tests.recovery.running import Steps, booking, history, loaded


async def test_an_execution_pauses_for_the_user_and_goes_on_elsewhere(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    with pytest.raises(ExecutionPaused) as paused:
        await booking(store, steps)
    assert (paused.value.state_id, paused.value.address) == ("s", "approve")
    assert paused.value.request == {"question": "flight 7?"}
    other = await reopen()
    [waiting] = await other.recovery.list_states(status=StateStatus.PAUSED)
    assert history(waiting) == [("search", "completed"), ("approve", "awaiting")]
    assert waiting.execution_state["history"]["events"][1]["request"] == {"question": "flight 7?"}
    assert waiting.execution_state["storage"]["data"] == {"seen": True}

    with pytest.raises(ExecutionPaused):
        await booking(other, steps)
    assert (await loaded(store, "s")).status is StateStatus.PAUSED
    assert await other.recovery.answer("s", "approve", {"yes": 1}) is True
    assert await store.recovery.answer("s", "approve", {"no": 1}) is False
    assert await booking(other, steps) == {"yes": 1}
    assert steps.called == ["search", "book"]
    assert (await loaded(store, "s")).status is StateStatus.COMPLETED


async def test_of_many_answers_one_stands(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    with pytest.raises(ExecutionPaused):
        await booking(store, steps)
    other = await reopen()
    accepted = await asyncio.gather(
        *((store if n % 2 else other).recovery.answer("s", "approve", n) for n in range(6))
    )
    assert sum(accepted) == 1
    assert await booking(store, steps) == accepted.index(True)


async def test_nobody_answers_what_was_not_asked(store: foldlog.Store) -> None:
    assert await store.recovery.answer("unknown", "a", 1) is False
    async with store.recovery.execution("s") as run:
        await run.run("a", Steps().giving("a", 1))
        assert await store.recovery.answer("s", "a", 2) is False
        assert await run.get_event_result("a") == 1


async def test_an_answer_that_comes_while_it_still_runs_is_found(
    store: foldlog.Store, steps: Steps
) -> None:
    async with store.recovery.execution("s") as run:
        with pytest.raises(ExecutionPaused):
            await run.ask("approve")
        await store.recovery.answer("s", "approve", "yes")
        assert await run.ask("approve") == "yes"
        await run.run("book", steps.giving("book", 1))
    assert steps.called == ["book"]


async def test_a_step_that_pauses_within_is_entered_again(
    store: foldlog.Store, steps: Steps
) -> None:
    async def agent(run: Any) -> str:
        await run.run("agent::search", steps.giving("search", 1))
        return f"answered {await run.ask('agent::approve')}"

    with pytest.raises(ExecutionPaused):
        async with store.recovery.execution("s") as run:
            await run.run("agent", agent, run, event_type=EventType.AGENT)
    assert history(await loaded(store, "s")) == [
        ("agent", "retracted"),
        ("agent::search", "completed"),
        ("agent::approve", "awaiting"),
    ]
    await store.recovery.answer("s", "agent::approve", "yes")
    async with store.recovery.execution("s") as run:
        assert run.unknown == ()
        assert await run.run("agent", agent, run) == "answered yes"
    assert steps.called == ["search"]
