"""Executions that wait for the user, on every backend."""

from __future__ import annotations

from typing import Any

import pytest

import foldlog
from foldlog.integrations.rh_agents import EventType, StateBackend, StateStatus
from foldlog.runs import RunPaused
from tests.conftest import OpenStore
from tests.integrations.rh_agents.running import Steps, answered, booking, history, loaded


async def test_an_execution_pauses_for_the_user_and_goes_on_elsewhere(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    with pytest.raises(RunPaused) as paused:
        await booking(store, steps)
    assert (paused.value.run, paused.value.step) == ("s", "approve")
    assert paused.value.question == {"question": "flight 7?"}
    other = await reopen()
    [waiting] = await StateBackend(other).list_states(status=StateStatus.PAUSED)
    assert history(waiting) == [("search", "completed"), ("approve", "awaiting")]
    assert waiting.execution_state["history"]["events"][1]["request"] == {"question": "flight 7?"}
    assert waiting.execution_state["storage"]["data"] == {"seen": True}

    with pytest.raises(RunPaused):
        await booking(other, steps)
    assert (await loaded(store, "s")).status is StateStatus.PAUSED
    await answered(other, {"yes": 1})
    assert await booking(other, steps) == {"yes": 1}
    assert steps.called == ["search", "book"]
    assert (await loaded(store, "s")).status is StateStatus.COMPLETED


async def test_an_answer_that_comes_while_it_still_runs_is_found(
    store: foldlog.Store, steps: Steps
) -> None:
    async with StateBackend(store).execution("s") as run:
        with pytest.raises(RunPaused):
            await run.ask("approve")
        await answered(store, "yes")
        assert await run.ask("approve") == "yes"
        await run.step("book", steps.giving("book", 1))
    assert steps.called == ["book"]


async def test_a_step_that_pauses_within_is_entered_again(
    store: foldlog.Store, steps: Steps
) -> None:
    async def agent(run: Any) -> str:
        await run.step("agent::search", steps.giving("search", 1))
        return f"answered {await run.ask('agent::approve')}"

    with pytest.raises(RunPaused):
        async with StateBackend(store).execution("s") as run:
            await run.step("agent", agent, run, event_type=EventType.AGENT)
    assert history(await loaded(store, "s")) == [
        ("agent", "retracted"),
        ("agent::search", "completed"),
        ("agent::approve", "awaiting"),
    ]
    await answered(store, "yes")
    async with StateBackend(store).execution("s") as run:
        assert await run.step("agent", agent, run) == "answered yes"
    assert steps.called == ["search"]
