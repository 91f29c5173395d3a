"""Agents and teams as runs: their calls are steps, and what they wait for stands in the list."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent, UserProxyAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import ModelClientStreamingChunkEvent
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat
from autogen_agentchat.tools import AgentTool
from autogen_core import SingleThreadedAgentRuntime
from autogen_core.models import UserMessage
from autogen_core.tools import TextResultContent, ToolResult, Workbench

import foldlog
from foldlog import Misuse
from foldlog.integrations.autogen import agent_in, model_in
from foldlog.runs import RunPaused, StepUnknown
from tests.integrations.autogen.playing import PATIENCE, Played, call, outputs_in, steps_of
from tests.integrations.autogen.scripted import durable


def assistant(name: str, client: Any, **options: Any) -> AssistantAgent:
    """An agent that goes on until its model has said a text."""
    return AssistantAgent(name, client, max_tool_iterations=9, **options)


def said_by(result: TaskResult) -> str:
    return str(result.messages[-1].to_text())


async def come_to(store: foldlog.Store, it: Any, task: str = "go", **options: Any) -> str:
    """What an agent or a team says last in an open run."""
    async with store.run("r", session_id="s") as run, asyncio.timeout(PATIENCE):
        return said_by(await agent_in(run, it, **options).run(task=task))


async def cut_short(running: Coroutine[Any, Any, Any], is_begun: asyncio.Event) -> None:
    """Cancel what runs as soon as it has come there."""
    task = asyncio.create_task(running)
    async with asyncio.timeout(PATIENCE):
        await is_begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_agent_with_three_tools_a_question_and_a_crash(store: foldlog.Store) -> None:
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

    async def price(train: int) -> float:
        did.append("price")
        if did.count("price") == 1:
            raise ConnectionError("it does not answer")
        return 80.0

    @foldlog.durable(name="agent")
    async def travel(run: foldlog.Run, prompt: str) -> str:
        async def book(train: int) -> str:
            if not await run.ask(f"book {train}", f"Book train {train}?"):
                return "nobody wants it"
            did.append("book")
            return f"train {train}"

        agent = assistant("travel", client, tools=[search, price, book])
        options: Any = {"price": {"retries": 1, "pause": 0.01}}
        return said_by(await agent_in(run, agent, tools=options).run(task=prompt))

    async with foldlog.Worker(store, [travel]):
        handle = await store.start("agent", "a trip", id="r", session_id="s")
        async with aclosing(store.watch_waiting()) as items:
            async for item in items:
                assert item.asked == "Book train 7?"
                await store.answer(item.id, True)
                break
        assert await handle.result(timeout=PATIENCE) == "booked"
    assert did == ["search", "price", "price", "book"]
    assert outputs_in(client.heard[-1]) == {"c1": "[7]", "c2": "80.0", "c3": "train 7"}
    assert set((await steps_of(store)).items()) == {
        (step, "done")
        for step in (
            "travel: model 1",
            "travel: search c1",
            "travel: model 2",
            "travel: price c2",
            "travel: model 3",
            "travel: book c3",
            "book 7",
            "travel: model 4",
        )
    }
    usage = (await store.run("r", session_id="s").usages())["m-1"]
    assert (usage.input_tokens, usage.output_tokens) == (36, 16)


async def test_a_rerun_calls_nothing_and_another_prompt_is_found_out(store: foldlog.Store) -> None:
    client = Played([call("act", "c1")], "done", [call("act", "c2")], "done again")
    did: list[str] = []

    def act() -> dict[str, int]:
        did.append("act")
        return {"euros": 80}

    agent = assistant("a", client, tools=[act])
    found = []
    for _ in range(2):
        async with store.run("r", session_id="s") as run:
            durable_agent = agent_in(run, agent)
            first = await durable_agent.run(task="go")
            second = await durable_agent.run(task="go on")
            found.append([each.to_text() for each in (*first.messages, *second.messages)])
    assert found[0] == found[1]
    assert (len(did), len(client.heard)) == (2, 4)
    assert len(client.heard[-1]) == 8  # its system's message, and all that was said
    assert await agent.model_context.get_messages() == []  # as it was
    with pytest.raises(foldlog.StepChanged, match="to Bergen"):
        await come_to(store, agent, "to Bergen")


async def test_the_model_hears_of_a_tool_that_raises_the_same_in_every_execution(
    store: foldlog.Store,
) -> None:
    client = Played([call("fail", "c1"), call("fail", "c2", days="two")], "sorry")
    failed: list[str] = []

    def fail(days: int = 1) -> None:
        failed.append("fail")
        raise ValueError("no trains")

    agent = assistant("a", client, tools=[fail])
    options: Any = {"fail": {"retries": 1, "pause": 0.01}}
    for _ in range(2):
        assert await come_to(store, agent, tools=options) == "sorry"
    assert failed == ["fail", "fail"]
    outputs = outputs_in(client.heard[-1])
    assert outputs["c1"] == "no trains"
    assert "days" in outputs["c2"]
    assert (await steps_of(store))["a: fail c1"] == "done"


@pytest.mark.parametrize("loops", [1, 9])
async def test_a_tool_of_unknown_outcome_stops_the_run_and_the_model_hears_nothing(
    store: foldlog.Store, loops: int
) -> None:
    is_begun = asyncio.Event()

    async def pay() -> str:
        is_begun.set()
        await asyncio.Event().wait()
        return ""

    client = Played([call("pay", "c1")], "paid")
    agent = AssistantAgent("a", client, tools=[pay], max_tool_iterations=loops)
    await cut_short(come_to(store, agent), is_begun)
    with pytest.raises(StepUnknown) as unknown:
        await come_to(store, agent)
    assert len(client.heard) == 1
    await store.confirm(unknown.value.id, "12 euros")
    assert await come_to(store, agent) == ("12 euros" if loops == 1 else "paid")


async def test_a_tool_beside_one_that_stops_the_run_ends_and_nobody_is_asked_of_it(
    store: foldlog.Store,
) -> None:
    has_asked = asyncio.Event()
    did: list[str] = []

    async def slow() -> str:
        await has_asked.wait()
        did.append("slow")
        return "slow"

    client = Played([call("ask", "c1"), call("slow", "c2")], "done")

    async def go() -> str:
        async with store.run("r", session_id="s") as run, asyncio.timeout(PATIENCE):

            async def ask() -> str:
                has_asked.set()
                return str(await run.ask("who?", wait=0))

            agent = assistant("a", client, tools=[ask, slow])
            return said_by(await agent_in(run, agent).run(task="go"))

    with pytest.raises(RunPaused):
        await go()
    [item] = await store.waiting()
    await store.answer(item.id, "me")
    assert await go() == "done"
    assert did == ["slow"]
    assert outputs_in(client.heard[-1]) == {"c1": "me", "c2": "slow"}


async def test_a_tool_that_takes_too_long_stops_the_run(store: foldlog.Store) -> None:
    async def wait() -> str:
        await asyncio.Event().wait()
        return ""

    client = Played([call("wait", "c1")], "done")
    options: Any = {"wait": {"timeout": 0.01}}
    with pytest.raises(TimeoutError):
        await come_to(store, assistant("a", client, tools=[wait]), tools=options)
    assert len(client.heard) == 1


async def test_a_stream_is_heard_once_and_then_comes_from_the_record(store: foldlog.Store) -> None:
    client = Played([call("act", "c1")], "it is done")

    def act() -> str:
        return "acted"

    agent = assistant("a", client, tools=[act], model_client_stream=True)
    found = []
    for _ in range(2):
        async with store.run("r", session_id="s") as run:
            heard = [each async for each in agent_in(run, agent).run_stream(task="go")]
            chunks = [
                each.content for each in heard if isinstance(each, ModelClientStreamingChunkEvent)
            ]
            found.append((chunks, said_by(heard[-1])))
    assert len(client.heard) == 2
    assert found == [(["it", "is", "done"], "it is done"), ([], "it is done")]


@pytest.mark.parametrize("streams", [False, True])
async def test_the_run_says_what_the_model_says(store: foldlog.Store, streams: bool) -> None:
    def act() -> str:
        return "acted"

    client = Played([call("act", "c1")], "it is done")
    agent = assistant("a", client, tools=[act], model_client_stream=streams)
    async with foldlog.Worker(store, [durable(agent, say=True)]):
        handle = await store.start("agent", "go", id="r", session_id="s")
        said: list[Any] = [each.record.data async for each in handle.stream()]
        assert await handle.result(timeout=PATIENCE) == "it is done"
    assert said == ["it", "is", "done"]
    assert len(client.heard) == 2
    async with store.run("other", session_id="s") as run:
        judge = model_in(run, Played("it is so"), "judge", say=True)
        answer = await judge.create([UserMessage(content="is it?", source="ann")])
        handle = store.queues.handle("other", session_id="s")
    assert answer.content == "it is so"
    assert [each.record.data async for each in handle.stream()] == ["it", "is", "so"]


class Weather(Workbench):  # type: ignore[misc, unused-ignore]
    """A workbench of one tool, as a server of tools is."""

    called = 0

    async def list_tools(self) -> Any:
        return [{"name": "sky", "description": "", "parameters": {"type": "object"}}]

    async def call_tool(self, name: str, *args: Any, **options: Any) -> ToolResult:
        self.called += 1
        return ToolResult(name=name, result=[TextResultContent(content="blue")])

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def reset(self) -> None: ...
    async def save_state(self) -> Any: ...
    async def load_state(self, state: Any) -> None: ...


async def test_tools_of_a_workbench_are_steps(store: foldlog.Store) -> None:
    client, weather = Played([call("sky", "c1")], "done"), Weather()
    agent = assistant("a", client, workbench=weather)
    assert await come_to(store, agent) == await come_to(store, agent) == "done"
    assert weather.called == 1
    assert outputs_in(client.heard[-1]) == {"c1": "blue"}
    assert (await steps_of(store))["a: sky c1"] == "done"


async def test_a_team_is_a_run_with_a_person_in_it(store: foldlog.Store) -> None:
    clients = {
        name: Played(*turns) for name, turns in {"poet": ["a", "b"], "critic": ["c"]}.items()
    }
    selector = Played("poet", "critic", "ann", "poet")
    poet, critic = (assistant(name, client) for name, client in clients.items())

    @foldlog.durable(name="agent")
    async def write(run: foldlog.Run, prompt: str) -> list[str]:
        async def ann(said: str, token: Any = None) -> str:
            return str(await run.ask("ann", "Is it good?"))

        team = SelectorGroupChat(
            [poet, critic, UserProxyAgent("ann", input_func=ann)],
            model_client=selector,
            termination_condition=MaxMessageTermination(5),
            allow_repeated_speaker=True,
        )
        result = await agent_in(run, team).run(task=prompt)
        return [each.to_text() for each in result.messages]

    async with foldlog.Worker(store, [write]):
        handle = await store.start("agent", "a poem", id="r", session_id="s")
        async with aclosing(store.watch_waiting()) as items:
            async for item in items:
                await store.answer(item.id, "go on")
                break
        said = await handle.result(timeout=PATIENCE)
    assert [each for each in said if each in ("a", "b", "c", "go on")] == ["a", "c", "go on", "b"]
    assert [len(each.heard) for each in (*clients.values(), selector)] == [2, 1, 4]
    assert "SelectorGroupChat: model 4" in await steps_of(store)


async def test_a_team_that_waits_for_a_person_lets_go(store: foldlog.Store) -> None:
    async with store.run("r", session_id="s") as run:

        async def ann(said: str, token: Any = None) -> str:
            return str(await run.ask("ann", "Is it good?", wait=0))

        team = RoundRobinGroupChat([UserProxyAgent("ann", input_func=ann)], max_turns=1)
        with pytest.raises(RunPaused):
            await agent_in(run, team).run(task="go")


async def test_a_team_stops_where_nobody_knows_and_stays_as_it_was(store: foldlog.Store) -> None:
    is_begun = asyncio.Event()

    async def pay() -> str:
        is_begun.set()
        await asyncio.Event().wait()
        return ""

    poet = assistant("poet", Played([call("pay", "c1")], "a poem"), tools=[pay])
    critic = assistant("critic", Played("good"))
    inner = RoundRobinGroupChat([critic], name="judges", max_turns=1)
    team = RoundRobinGroupChat([poet, inner], termination_condition=MaxMessageTermination(3))
    await cut_short(come_to(store, poet), is_begun)
    with pytest.raises(StepUnknown) as unknown:
        await come_to(store, team)
    await store.confirm(unknown.value.id, "paid")
    assert await come_to(store, team) == await come_to(store, team) == "good"


async def test_an_agent_that_is_a_tool_has_steps_of_its_own_and_stops_the_run(
    store: foldlog.Store,
) -> None:
    is_begun = asyncio.Event()

    async def pay() -> str:
        is_begun.set()
        await asyncio.Event().wait()
        return ""

    inner, outer = (
        Played([call("pay", "p1")], "one"),
        Played([call("clerk", "c1", task="x")], "end"),
    )
    clerk = assistant("clerk", inner, tools=[pay])
    options: Any = {"clerk": False}

    async def go() -> str:
        async with store.run("r", session_id="s") as run, asyncio.timeout(PATIENCE):
            agent = assistant("a", outer, tools=[AgentTool(agent_in(run, clerk))])
            return said_by(await agent_in(run, agent, tools=options).run(task="go"))

    await cut_short(go(), is_begun)
    with pytest.raises(StepUnknown) as unknown:
        await go()
    await store.confirm(unknown.value.id, "paid")
    assert await go() == "end"
    assert (len(inner.heard), len(outer.heard)) == (2, 2)
    assert list(await steps_of(store)) == [
        "a: model 1",
        "clerk: model 1",
        "clerk: pay p1",
        "clerk: model 2",
        "a: model 2",
    ]


async def test_a_tool_that_is_no_step_is_done_in_every_execution(store: foldlog.Store) -> None:
    did: list[str] = []

    def act() -> str:
        did.append("act")
        raise ValueError("no")

    client = Played([call("act", "c1")], "done")
    options: Any = {"act": False}
    for _ in range(2):
        assert await come_to(store, assistant("a", client, tools=[act]), tools=options) == "done"
    assert did == ["act", "act"]
    assert outputs_in(client.heard[-1]) == {"c1": "no"}
    assert list(await steps_of(store)) == ["a: model 1", "a: model 2"]


async def test_a_model_client_by_itself(store: foldlog.Store) -> None:
    client = Played(ConnectionError("down"), "good")

    async def judge() -> Any:
        async with store.run("r", session_id="s") as run:
            durable_client = model_in(run, client, "judge")
            assert durable_client.model_info["family"] == "m-1"
            return (await durable_client.create([UserMessage(content="?", source="a")])).content

    with pytest.raises(ConnectionError):
        await judge()
    assert await judge() == await judge() == "good"
    assert len(client.heard) == 2


async def test_what_cannot_be_a_run_is_refused(store: foldlog.Store) -> None:
    async with store.run("r", session_id="s") as run:
        with pytest.raises(Misuse, match="no UserProxyAgent"):
            agent_in(run, UserProxyAgent("ann"))
        wrong: Any = {"search": {"repeat": True}}
        with pytest.raises(Misuse, match="repeatable"):
            agent_in(run, assistant("a", Played()), tools=wrong)
        runtime = SingleThreadedAgentRuntime()
        with pytest.raises(Misuse, match="runtime"):
            agent_in(run, RoundRobinGroupChat([assistant("a", Played())], runtime=runtime))


async def test_a_durable_agent_of_a_module_serves_any_number_of_runs(store: foldlog.Store) -> None:
    agent = assistant("a", Played("one", "two"))
    async with foldlog.Worker(store, [durable(agent)]):
        for n, said in enumerate(("one", "two")):
            handle = await store.start("agent", "go", id="r", session_id=f"s{n}")
            assert await handle.result(timeout=PATIENCE) == said
