"""Agents as runs: their calls are steps, and what they wait for stands in the list."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

import pytest
from agent_framework import Agent, BaseAgent, Content, WorkflowBuilder, tool
from pydantic import BaseModel

import foldlog
from foldlog import Misuse
from foldlog.integrations.agent_framework import agent_in
from foldlog.runs import RunPaused, StepUnknown
from tests.integrations.agent_framework.desk import Counting
from tests.integrations.agent_framework.playing import (
    PATIENCE,
    Played,
    call,
    outputs_in,
    steps_of,
)
from tests.integrations.agent_framework.scripted import durable


class Price(BaseModel):
    """What is no plain data."""

    euros: int


async def agent_run(store: foldlog.Store, agent: Any, prompt: str = "go", **options: Any) -> Any:
    """What an agent responds in an open run."""
    async with store.run("r", session_id="s") as run:
        return (await agent_in(run, agent, **options).run(prompt)).text


async def cut_short(running: Coroutine[Any, Any, Any], is_begun: asyncio.Event) -> None:
    """Cancel what runs as soon as it has come there."""
    task = asyncio.create_task(running)
    async with asyncio.timeout(PATIENCE):
        await is_begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_agent_with_three_tools_an_approval_and_a_crash(store: foldlog.Store) -> None:
    client = Played(
        [call("search", "c1", city="Oslo")],
        [call("price", "c2", train=7)],
        [call("book", "c3", train=7)],
        "booked",
    )
    did: list[str] = []

    def search(city: str) -> list[int]:
        did.append("search")
        return [7]

    async def price(train: int) -> Price:
        did.append("price")
        if did.count("price") == 1:
            raise ConnectionError("it does not answer")
        return Price(euros=80)

    @tool(approval_mode="always_require")
    def book(train: int) -> str:
        did.append("book")
        return f"train {train}"

    agent = Agent(client, name="travel", tools=[search, price, book])
    options: Any = {"price": {"retries": 1, "pause": 0.01}}
    async with foldlog.Worker(store, [durable(agent, tools=options)]):
        handle = await store.start("agent", "a trip", id="r", session_id="s")
        async with aclosing(store.watch_waiting()) as items:
            async for item in items:
                assert item.asked == {"tool": "book", "arguments": {"train": 7}}
                await store.answer(item.id, True)
                break
        assert await handle.result(timeout=PATIENCE) == "booked"
    assert did == ["search", "price", "price", "book"]
    heard = outputs_in([each for messages in client.heard for each in messages])
    assert heard == {"c1": "[7]", "c2": '{"euros": 80}', "c3": "train 7"}
    assert await steps_of(store) == dict.fromkeys(
        (
            "travel: model 1",
            "travel: search c1",
            "travel: model 2",
            "travel: price c2",
            "travel: model 3",
            "travel: approve book c3",
            "travel: book c3",
            "travel: model 4",
        ),
        "done",
    )
    usage = (await store.run("r", session_id="s").usages())["m-1"]
    assert (usage.input_tokens, usage.output_tokens) == (36, 16)


async def test_a_rerun_calls_nothing_and_another_prompt_is_found_out(store: foldlog.Store) -> None:
    client = Played([call("act", "c1")], "done", [call("act", "c2")], "done again")
    did: list[str] = []

    def act() -> Content:
        did.append("act")
        return Content.from_uri("https://example.org/sky.png", media_type="image/png")

    agent = Agent(client, name="a", tools=[act])
    found = []
    for _ in range(2):
        async with store.run("r", session_id="s") as run:
            durable_agent = agent_in(run, agent)
            first, second = await durable_agent.run("go"), await durable_agent.run("go on")
            items = [part.items for each in first.messages for part in each.contents]
            found.append((items, first.text, second.text))
    assert found[0] == found[1]
    assert (len(did), len(client.heard)) == (2, 4)
    assert (agent.middleware, agent.context_providers) == (None, [])  # as it was
    with pytest.raises(foldlog.StepChanged, match="to Bergen"):
        await agent_run(store, agent, "to Bergen")


async def test_the_model_hears_of_a_tool_that_raises_the_same_in_every_execution(
    store: foldlog.Store,
) -> None:
    client = Played([call("fail", "c1"), call("fail", "c2", days="two")], "sorry")
    failed: list[str] = []

    def fail(days: int = 1) -> None:
        failed.append("fail")
        raise ValueError("no trains")

    client.function_invocation_configuration["include_detailed_errors"] = True
    agent = Agent(client, name="a", tools=[fail])
    for _ in range(2):
        assert await agent_run(store, agent) == "sorry"
    assert failed == ["fail"]
    outputs = outputs_in(client.heard[-1])
    assert "no trains" in outputs["c1"]
    assert "Argument parsing failed" in outputs["c2"]
    assert (await steps_of(store))["a: fail c1"] == "done"


async def test_a_tool_of_unknown_outcome_stops_the_run_and_the_model_hears_nothing(
    store: foldlog.Store,
) -> None:
    is_begun = asyncio.Event()

    async def pay() -> str:
        is_begun.set()
        await asyncio.Event().wait()
        return ""

    client = Played([call("pay", "c1")], "paid")
    agent = Agent(client, name="a", tools=[pay])
    await cut_short(agent_run(store, agent), is_begun)
    with pytest.raises(StepUnknown) as unknown:
        await agent_run(store, agent)
    assert len(client.heard) == 1
    await store.confirm(unknown.value.id, "12 euros")
    assert await agent_run(store, agent) == "paid"
    assert outputs_in(client.heard[-1]) == {"c1": "12 euros"}


async def test_approvals_are_listed_at_once_and_the_model_hears_why_not(
    store: foldlog.Store,
) -> None:
    client = Played([call("pay", f"c{euros}", euros=euros) for euros in (1, 2, 3)], "done")
    paid: list[int] = []

    @tool(approval_mode="always_require")
    def pay(euros: int) -> str:
        paid.append(euros)
        return "paid"

    agent = Agent(client, name="a", tools=[pay])
    answers: dict[int, Any] = {1: True, 2: False, 3: "too dear"}
    async with foldlog.Worker(store, [durable(agent)]):
        handle = await store.start("agent", "go", id="r", session_id="s")
        async with aclosing(store.watch_waiting()) as items:
            async for item in items:
                euros = item.asked["arguments"]["euros"]
                await store.answer(item.id, answers.pop(euros))
                if not answers:
                    break
        assert await handle.result(timeout=PATIENCE) == "done"
    assert paid == [1]
    outputs = outputs_in(client.heard[-1])
    assert outputs["c1"] == "paid"
    assert "rejected" in outputs["c2"]
    assert "rejected" in outputs["c3"]
    assert "too dear" in str([each.text for each in client.heard[-1]])


async def test_approvals_may_be_the_callers(store: foldlog.Store) -> None:
    @tool(approval_mode="always_require")
    def pay() -> str:
        raise AssertionError

    agent = Agent(Played([call("pay", "c1")]), name="a", tools=[pay])
    async with store.run("r", session_id="s") as run:
        response = await agent_in(run, agent, asks=False).run("go")
    assert [each.type for each in response.user_input_requests] == ["function_approval_request"]


async def test_a_stream_is_heard_once_and_then_comes_from_the_record(store: foldlog.Store) -> None:
    client = Played([call("act", "c1")], "it is done")

    def act() -> str:
        return "acted"

    agent = Agent(client, name="a", tools=[act])
    found = []
    for _ in range(2):
        async with store.run("r", session_id="s") as run:
            stream = agent_in(run, agent).run("go", stream=True)
            heard = [each.text async for each in stream if each.text]
            found.append((heard, (await stream.get_final_response()).text))
    assert len(client.heard) == 2
    assert found == [(["it", "is", "done"], "itisdone"), (["itisdone"], "itisdone")]


async def test_the_run_says_what_the_model_says(store: foldlog.Store) -> None:
    @tool(approval_mode="always_require")
    def pay() -> str:
        return "paid"

    client = Played([call("pay", "c1")], "it is done")
    agent = Agent(client, name="a", tools=[pay])
    async with foldlog.Worker(store, [durable(agent, say=True)]):
        handle = await store.start("agent", "go", id="r", session_id="s")
        async with aclosing(store.watch_waiting()) as items:
            async for item in items:
                await store.answer(item.id, True)
                break
        said: list[Any] = [each.record.data async for each in handle.stream()]
        assert await handle.result(timeout=PATIENCE) == "itisdone"
    parts = [part for each in said for part in each["contents"]]
    assert [part.get("text", part["type"]) for part in parts] == [
        "function_call",
        "it",
        "is",
        "done",
    ]
    assert len(client.heard) == 2
    assert outputs_in(client.heard[1]) == {"c1": "paid"}


async def test_a_stream_stops_where_nobody_knows_the_outcome(store: foldlog.Store) -> None:
    is_begun = asyncio.Event()

    async def pay() -> str:
        is_begun.set()
        await asyncio.Event().wait()
        return ""

    agent = Agent(Played([call("pay", "c1")], "paid"), name="a", tools=[pay])

    async def stream() -> str:
        async with store.run("r", session_id="s") as run:
            streamed = agent_in(run, agent).run("go", stream=True)
            async for _ in streamed:
                pass
            return str((await streamed.get_final_response()).text)

    await cut_short(stream(), is_begun)
    with pytest.raises(StepUnknown):
        await stream()


async def test_an_agent_that_is_a_tool_has_steps_of_its_own(store: foldlog.Store) -> None:
    paid: list[str] = []

    def pay() -> str:
        paid.append("paid")
        return "paid"

    inner, outer = (
        Played([call("pay", "p1")], "one"),
        Played([call("clerk", "c1", task="x")], "end"),
    )
    clerk = Agent(inner, name="clerk", tools=[pay])
    options: Any = {"clerk": False}
    for _ in range(2):
        async with store.run("r", session_id="s") as run:
            tools = [agent_in(run, clerk).as_tool()]
            agent = Agent(outer, name="a", tools=tools)
            assert (await agent_in(run, agent, tools=options).run("go")).text == "end"
    assert paid == ["paid"]
    assert (len(inner.heard), len(outer.heard)) == (2, 2)
    assert list(await steps_of(store)) == [
        "a: model 1",
        "clerk: model 1",
        "clerk: pay p1",
        "clerk: model 2",
        "a: model 2",
    ]


async def test_an_agent_that_is_a_tool_stops_its_run_where_it_does_not_know(
    store: foldlog.Store,
) -> None:
    is_begun = asyncio.Event()

    async def pay() -> None:
        is_begun.set()
        await asyncio.Event().wait()

    outer = Played([call("clerk", "c1", task="x")], "end")
    clerk = Agent(Played([call("pay", "p1")], "one"), name="clerk", tools=[pay])
    options: Any = {"clerk": False}

    async def go() -> Any:
        async with store.run("r", session_id="s") as run:
            agent = Agent(outer, name="a", tools=[agent_in(run, clerk).as_tool()])
            return (await agent_in(run, agent, tools=options).run("go")).text

    await cut_short(go(), is_begun)
    with pytest.raises(StepUnknown) as unknown:
        await go()
    assert len(outer.heard) == 1
    await store.confirm(unknown.value.id, "paid")
    assert await go() == "end"


async def test_agents_of_a_workflow_are_steps_of_the_run(store: foldlog.Store) -> None:
    clients = [Played("a poem"), Played("approved")]
    poet, critic = (Agent(c, name=n) for c, n in zip(clients, ("poet", "critic"), strict=True))
    found = []
    for _ in range(2):
        async with store.run("r", session_id="s") as run:
            first, second = agent_in(run, poet), agent_in(run, critic)
            builder = WorkflowBuilder(start_executor=first, output_from="all")
            workflow = builder.add_edge(first, second).build()
            events = await workflow.run("go")
            found.append(str([each.text for each in events.get_outputs()]))
    assert found[0] == found[1]
    assert "approved" in found[0]
    assert [len(each.heard) for each in clients] == [1, 1]
    assert list(await steps_of(store)) == ["poet: model 1", "critic: model 1"]


async def test_a_tool_that_is_no_step_is_done_in_every_execution(store: foldlog.Store) -> None:
    did: list[str] = []

    def act() -> str:
        did.append("act")
        return "acted"

    agent = Agent(Played([call("act", "c1")], "done"), name="a", tools=[act])
    options: Any = {"act": False}
    for _ in range(2):
        assert await agent_run(store, agent, tools=options) == "done"
    assert did == ["act", "act"]
    assert list(await steps_of(store)) == ["a: model 1", "a: model 2"]


async def test_a_run_that_waits_in_a_tool_lets_go(store: foldlog.Store) -> None:
    async with store.run("r", session_id="s") as run:

        async def ask() -> Any:
            return await run.ask("who?", wait=0)

        agent = Agent(Played([call("ask", "c1")], "done"), name="a", tools=[ask])
        with pytest.raises(RunPaused):
            await agent_in(run, agent).run("go")


async def test_structured_output_is_read_from_the_record(store: foldlog.Store) -> None:
    client = Played('{"euros": 80}')
    agent = Agent(client, name="a", default_options={"response_format": Price})
    for _ in range(2):
        async with store.run("r", session_id="s") as run:
            assert (await agent_in(run, agent).run("go")).value == Price(euros=80)
    assert len(client.heard) == 1


async def test_a_model_that_fails_is_asked_again(store: foldlog.Store) -> None:
    client = Played(ConnectionError("down"), "done")
    agent = Agent(client, name="a")
    with pytest.raises(ConnectionError):
        await agent_run(store, agent)
    assert await agent_run(store, agent) == "done"
    assert list(await steps_of(store)) == ["a: model 1"]


async def test_what_cannot_be_steps_is_refused(store: foldlog.Store) -> None:
    async with store.run("r", session_id="s") as run:
        for agent in (Agent(Counting(), name="a"), BaseAgent(name="a")):
            with pytest.raises(Misuse, match="has no middleware"):
                agent_in(run, agent)
        history = {"require_per_service_call_history_persistence": True}
        with pytest.raises(Misuse, match="would miss them"):
            agent_in(run, Agent(Played(), **history))  # type: ignore[arg-type, unused-ignore]
        wrong: Any = {"search": {"repeat": True}}
        with pytest.raises(Misuse, match="repeatable"):
            agent_in(run, Agent(Played()), tools=wrong)
