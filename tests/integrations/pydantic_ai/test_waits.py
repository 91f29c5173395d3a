"""Waits of an agent for something outside: each is a question, and its id is the token."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext
from pydantic_ai.capabilities import AbstractCapability, RequestInput
from pydantic_ai.durable_exec import ExternalEventError
from pydantic_ai.external_events import wait_for_external_event

import foldlog
from foldlog.integrations.pydantic_ai import FoldlogDurability
from foldlog.models import Waiting
from tests.integrations.pydantic_ai.playing import PATIENCE, Played, call, durable, steps_of
from tests.workers.working import reached


class Waits(AbstractCapability[Any]):
    """Waits before the agent begins, and says what it was given."""

    def __init__(self, ask: Any, timeout: dt.timedelta | None = None) -> None:
        self.ask = ask
        self.timeout = timeout
        self.given: list[Any] = []

    async def before_run(self, ctx: RunContext[Any]) -> None:
        self.given.append(
            await wait_for_external_event("payment", ask=self.ask, timeout=self.timeout)
        )


async def first_waiting(store: foldlog.Store) -> Waiting:
    async for item in store.watch_waiting():
        return item
    raise AssertionError


async def test_whoever_was_handed_the_token_answers_with_it(store: foldlog.Store) -> None:
    tokens: list[str] = []
    waits = Waits(tokens.append)
    agent = Agent(Played("done").model, name="a", capabilities=[waits])
    async with foldlog.Worker(store, [durable(agent)]):
        handle = await store.start("agent", "go", id="r", session_id="s")
        item = await first_waiting(store)
        assert item.asked == {"waits_for": "payment"}
        await store.answer(item.id, {"euros": 80})
        assert await handle.result(timeout=PATIENCE) == "done"
    assert tokens == [item.id]
    assert waits.given == [{"euros": 80}]
    assert list(await steps_of(store)) == [
        "a: wait for payment",
        "a: wait for payment, asked",
        "a: model 1",
    ]


async def test_an_answer_on_the_spot_is_recorded_and_waits_no_more(store: foldlog.Store) -> None:
    asked: list[str] = []

    async def ask(token: str) -> dict[str, int]:
        asked.append(token)
        return {"euros": 80}

    waits = Waits(ask)
    agent = Agent(Played("done").model, name="a", capabilities=[waits])
    for _ in range(2):
        async with store.run("r", session_id="s") as run:
            await agent.run("go", capabilities=[FoldlogDurability(run)])
    assert len(asked) == 1
    assert waits.given == [{"euros": 80}, {"euros": 80}]
    assert await store.waiting() == []


async def test_a_wait_has_an_end(store: foldlog.Store) -> None:
    waits = Waits(lambda token: None, dt.timedelta(milliseconds=1))
    agent = Agent(Played("done").model, name="a", capabilities=[waits])
    with pytest.raises(ExternalEventError, match="in time"):
        async with store.run("r", session_id="s") as run:
            await agent.run("go", capabilities=[FoldlogDurability(run)])


async def test_request_input_asks_its_way_and_is_answered_by_the_store(
    store: foldlog.Store,
) -> None:
    asked: list[str] = []

    async def ask(
        ctx: RunContext[Any], requests: DeferredToolRequests, token: str
    ) -> DeferredToolResults | None:
        asked.extend([each.tool_name for each in requests.approvals])
        return None

    agent = Agent(
        Played([call("act", "c1")], "done").model, name="a", capabilities=[RequestInput(ask)]
    )

    @agent.tool_plain(requires_approval=True)
    def act() -> str:
        return "sunny"

    async with foldlog.Worker(store, [durable(agent)]):
        handle = await store.start("agent", "go", id="r", session_id="s")
        item = await first_waiting(store)
        await store.answer(item.id, {"approvals": {"c1": True}})
        assert await handle.result(timeout=PATIENCE) == "done"
    assert asked == ["act"]
    assert (await steps_of(store))["a: act c1"] == "done"


async def test_a_wait_takes_no_worker_and_no_tool_beside_it_is_cut_short(
    store: foldlog.Store,
) -> None:
    played = Played([call("act", "c1"), call("confirm", "c2")], "done")
    agent = Agent(played.model, name="a")
    did: list[str] = []

    @agent.tool_plain
    async def act() -> str:
        did.append("act")
        return "sunny"

    @agent.tool_plain(requires_approval=True)
    async def confirm() -> str:
        did.append("confirm")
        return "yes"

    async with foldlog.Worker(store, [durable(agent)]):
        handle = await store.start("agent", "go", id="r", session_id="s")
        item = await first_waiting(store)
        await reached(store, handle, "PAUSED")
        assert (await steps_of(store))["a: act c1"] == "done"
        await store.answer(item.id, True)
        assert await handle.result(timeout=PATIENCE) == "done"
    assert did == ["act", "confirm"]
    assert played.asked == 2
