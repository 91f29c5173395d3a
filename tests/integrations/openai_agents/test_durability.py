"""Agents as runs: their calls are steps, and what they wait for stands in the list."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

import pytest
from agents.mcp import MCPServer
from mcp.types import CallToolResult, TextContent, Tool
from pydantic import BaseModel

import foldlog
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailTripwireTriggered,
    LocalShellTool,
    ModelRetrySettings,
    ModelSettings,
    OutputGuardrail,
    Runner,
    ToolOutputText,
    UserError,
    WebSearchTool,
    function_tool,
    handoff,
)
from foldlog import Misuse
from foldlog.integrations.openai_agents import FoldlogRunner, FoldlogSession
from foldlog.runs import RunPaused, StepUnknown
from tests.integrations.openai_agents.playing import PATIENCE, Played, call, outputs_in, steps_of
from tests.integrations.openai_agents.scripted import durable


class Price(BaseModel):
    """What is no plain data."""

    euros: int


async def agent_run(store: foldlog.Store, agent: Any, input: Any = "go", **options: Any) -> Any:
    """What an agent outputs in an open run."""
    async with store.run("r", session_id="s") as run:
        result = await FoldlogRunner(run, **options).run(agent, input)
        return result.final_output


async def cut_short(running: Coroutine[Any, Any, Any], is_begun: asyncio.Event) -> None:
    """Cancel what runs as soon as it has come there."""
    task = asyncio.create_task(running)
    async with asyncio.timeout(PATIENCE):
        await is_begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_agent_with_three_tools_an_approval_and_a_crash(store: foldlog.Store) -> None:
    model = Played(
        [call("search", "c1", city="Oslo")],
        [call("price", "c2", train=7)],
        [call("book", "c3", train=7)],
        "booked",
    )
    did: list[str] = []

    @function_tool
    def search(city: str) -> list[int]:
        did.append("search")
        return [7]

    @function_tool(failure_error_function=None)
    async def price(train: int) -> float:
        did.append("price")
        if did.count("price") == 1:
            raise ConnectionError("it does not answer")
        return 80.0

    @function_tool(needs_approval=True)
    def book(train: int) -> str:
        did.append("book")
        return f"train {train}"

    agent = Agent("travel", tools=[search, price, book], model=model)
    async with foldlog.Worker(store, [durable(agent)]):
        handle = await store.start("agent", "a trip", id="r", session_id="s")
        async with aclosing(store.watch_waiting()) as items:
            async for item in items:
                assert item.asked == {"tool": "book", "arguments": {"train": 7}}
                await store.answer(item.id, True)
                break
        assert await handle.result(timeout=PATIENCE) == "booked"
    assert did == ["search", "price", "price", "book"]
    assert outputs_in(model.heard[-1]) == {"c1": "[7]", "c2": "80.0", "c3": "train 7"}
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
    model = Played([call("act", "c1")], "done", [call("act", "c2")], "done again")
    did: list[str] = []

    @function_tool
    def act() -> ToolOutputText:
        did.append("act")
        return ToolOutputText(text="sunny")

    agent = Agent("a", tools=[act], model=model)
    found = []
    for _ in range(2):
        async with store.run("r", session_id="s") as run:
            first = await FoldlogRunner(run).run(agent, "go")
            second = await FoldlogRunner(run).run(agent, "go")
            found.append((first.to_input_list(), second.final_output, second.raw_responses))
    assert found[0] == found[1]
    assert (len(did), len(model.heard)) == (2, 4)
    assert outputs_in(model.heard[1]) == {"c1": [{"type": "input_text", "text": "sunny"}]}
    assert agent.model is model  # as it was
    with pytest.raises(foldlog.StepChanged, match="to Bergen"):
        await agent_run(store, agent, "to Bergen")


async def test_approvals_are_listed_at_once_and_each_is_answered(store: foldlog.Store) -> None:
    model = Played([call("pay", f"c{euros}", euros=euros) for euros in (1, 2, 3)], "done")
    paid: list[int] = []

    @function_tool(needs_approval=True)
    def pay(euros: int) -> str:
        paid.append(euros)
        return f"paid {euros}"

    agent = Agent("a", tools=[pay], model=model)
    async with foldlog.Worker(store, [durable(agent)]):
        handle = await store.start("agent", "go", id="r", session_id="s")
        answers = {"a: approve pay c1": True, "a: approve pay c2": False}
        answers |= {"a: approve pay c3": "too expensive"}  # type: ignore[dict-item]
        items: dict[str, Any] = {}
        async with aclosing(store.watch_waiting()) as waiting:
            async for item in waiting:
                items[item.step or ""] = item
                if items.keys() == answers.keys():  # before the first is answered
                    break
        for step, item in items.items():
            await store.answer(item.id, answers[step])
        assert await handle.result(timeout=PATIENCE) == "done"
    assert paid == [1]
    said = outputs_in(model.heard[-1])
    assert (said["c1"], said["c3"]) == ("paid 1", "too expensive")
    assert "not approved" in said["c2"]


async def test_without_asks_the_result_has_interruptions(store: foldlog.Store) -> None:
    @function_tool(needs_approval=True)
    def pay() -> None: ...

    agent = Agent("a", tools=[pay], model=Played([call("pay", "c1")]))
    async with store.run("r", session_id="s") as run:
        result = await FoldlogRunner(run, asks=False).run(agent, "go")
    assert [each.name for each in result.interruptions] == ["pay"]


@pytest.mark.parametrize("repeatable", [False, True])
async def test_two_calls_of_one_tool_that_are_cut_short(
    store: foldlog.Store, repeatable: bool
) -> None:
    model = Played([call("pay", "c1", euros=1), call("pay", "c2", euros=2)], "done")
    paid: list[int] = []
    are_begun = asyncio.Event()

    @function_tool
    async def pay(euros: int) -> str:
        paid.append(euros)
        if len(paid) <= 2:
            if len(paid) == 2:
                are_begun.set()
            await asyncio.Event().wait()
        return f"paid {euros}"

    agent = Agent("a", tools=[pay], model=model)
    options: Any = {"tools": {"pay": {"repeatable": repeatable}}}
    await cut_short(agent_run(store, agent, **options), are_begun)
    if repeatable:
        assert await agent_run(store, agent, **options) == "done"
        assert sorted(paid) == [1, 1, 2, 2]
        return
    with pytest.raises(StepUnknown):
        await agent_run(store, agent, **options)
    for item in await store.waiting():
        await store.confirm(item.id, f"confirmed {item.step}")
    assert await agent_run(store, agent, **options) == "done"
    assert paid == [1, 2]
    assert outputs_in(model.heard[-1]) == {
        "c1": "confirmed a: pay c1",
        "c2": "confirmed a: pay c2",
    }
    assert len(model.heard) == 2


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ({"a": [1]}, "{'a': [1]}"),
        ((1, 2), "(1, 2)"),
        ([Price(euros=7)], "[Price(euros=7)]"),
        ({7: "Oslo"}, "{7: 'Oslo'}"),
        ([ToolOutputText(text="sunny")], [{"type": "input_text", "text": "sunny"}]),
        (None, "None"),
    ],
)
async def test_a_model_hears_of_a_tool_what_the_sdk_says_of_it(
    store: foldlog.Store, output: Any, said: Any
) -> None:
    @function_tool
    def act() -> Any:
        return output

    turns = ([call("act", "c1")], "done")
    bare, model = Played(*turns), Played(*turns)
    await Runner.run(Agent("a", tools=[act], model=bare), "go")
    agent = Agent("a", tools=[act], model=model)
    assert await agent_run(store, agent) == await agent_run(store, agent) == "done"
    assert outputs_in(model.heard[-1]) == outputs_in(bare.heard[-1]) == {"c1": said}


async def test_a_tool_that_is_too_slow_is_over_and_the_model_hears_of_it(
    store: foldlog.Store,
) -> None:
    model = Played([call("slow", "c1")], "done")

    @function_tool(timeout=0.01)
    async def slow() -> None:
        await asyncio.Event().wait()

    agent = Agent("a", tools=[slow], model=model)
    assert await agent_run(store, agent) == await agent_run(store, agent) == "done"
    assert "timed out" in outputs_in(model.heard[-1])["c1"]
    assert (await steps_of(store))["a: slow c1"] == "done"


async def test_a_model_that_fails_is_asked_again_in_the_same_step(store: foldlog.Store) -> None:
    model = Played(ConnectionError("it does not answer"), "done")
    agent = Agent("a", model=model)
    with pytest.raises(ConnectionError):
        await agent_run(store, agent)
    assert await agent_run(store, agent) == "done"
    assert await steps_of(store) == {"a: model 1": "done"}


async def test_what_the_sdk_asks_again_is_one_step(store: foldlog.Store) -> None:
    model = Played(ConnectionError("it does not answer"), "done")
    settings = ModelSettings(retry=ModelRetrySettings(max_retries=1, policy=lambda _: True))
    agent = Agent("a", model=model, model_settings=settings)
    assert await agent_run(store, agent) == await agent_run(store, agent) == "done"
    assert await steps_of(store) == {"a: model 1": "done"}


async def test_a_tool_may_have_the_same_runner_run_another_agent(store: foldlog.Store) -> None:
    clerk = Agent[Any]("clerk", model=Played(ConnectionError("it does not answer"), "paid"))
    model = Played([call("pay", "c1")], "done")

    async def go() -> Any:
        async with store.run("r", session_id="s") as run:
            options: Any = {"pay": {"repeatable": True}}
            runner = FoldlogRunner(run, tools=options)

            @function_tool(failure_error_function=None)
            async def pay() -> str:
                return str((await runner.run(clerk, "pay")).final_output)

            return (await runner.run(Agent("a", tools=[pay], model=model), "go")).final_output

    with pytest.raises(UserError, match="it does not answer"):
        await go()
    assert await go() == "done"
    assert outputs_in(model.heard[-1]) == {"c1": "paid"}
    assert "a: pay c1/clerk: model 1" in await steps_of(store)


async def test_what_is_called_at_a_hand_off_is_a_step_and_agents_hand_back(
    store: foldlog.Store,
) -> None:
    heard: list[str] = []
    triage_model = Played([call("transfer_to_billing", "c1")], "all is said")
    billing_model = Played([call("pay", "c2")], [call("transfer_to_triage", "c3")])

    @function_tool
    def pay() -> str:
        heard.append("pay")
        return "paid"

    triage = Agent[Any]("triage", model=triage_model)
    billing = Agent[Any]("billing", tools=[pay], model=billing_model, handoffs=[triage])
    triage.handoffs = [handoff(billing, on_handoff=lambda _: heard.append("hand-off"))]
    for _ in range(2):
        async with store.run("r", session_id="s") as run:
            result = await FoldlogRunner(run).run(triage, "go")
            assert result.final_output == "all is said"
            assert result.last_agent.name == "triage"
    assert heard == ["hand-off", "pay"]
    assert list(await steps_of(store)) == [
        "triage: model 1",
        "triage: transfer_to_billing",
        "billing: model 1",
        "billing: pay c2",
        "billing: model 2",
        "triage: model 2",
    ]


async def test_guardrails_are_asked_once(store: foldlog.Store) -> None:
    asked: list[str] = []

    async def polite(context: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        asked.append("input")
        return GuardrailFunctionOutput({"rude": input == "rude"}, input == "rude")

    def short(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        asked.append("output")
        return GuardrailFunctionOutput(len(output), False)

    def agent_of(*turns: str) -> Agent[Any]:
        return Agent(
            "a",
            model=Played(*turns),
            input_guardrails=[InputGuardrail(polite, run_in_parallel=False)],
            output_guardrails=[OutputGuardrail(short)],
        )

    agent = agent_of("done")
    for _ in range(2):
        async with store.run("r", session_id="s") as run:
            result = await FoldlogRunner(run).run(agent, "go")
            [found] = result.output_guardrail_results
            assert found.output.output_info == 4
            assert found.guardrail.get_name() == "short"
    assert asked == ["input", "output"]
    assert list(await steps_of(store)) == [
        "a: guardrail polite",
        "a: model 1",
        "a: guardrail short",
    ]
    for _ in range(2):
        async with store.run("rude", session_id="s") as run:
            with pytest.raises(InputGuardrailTripwireTriggered):
                await FoldlogRunner(run).run(agent_of(), "rude")
    assert asked == ["input", "output", "input"]


async def test_an_agent_that_is_a_tool_has_steps_of_its_own_and_asks(store: foldlog.Store) -> None:
    paid: list[int] = []

    @function_tool(needs_approval=True)
    def pay(euros: int) -> str:
        paid.append(euros)
        return "paid"

    calls = [call("clerk", "c1", input="a"), call("clerk", "c2", input="b")]
    outer_model = Played(calls, "done")
    clerk = Agent[Any](
        "clerk",
        tools=[pay],
        model=Played([call("pay", "p1", euros=1)], [call("pay", "p2", euros=1)], "one", "two"),
    )

    async def go() -> Any:
        async with store.run("r", session_id="s") as run:
            runner = FoldlogRunner(run)
            tool = runner.agent(clerk).as_tool("clerk", "It pays.")
            agent = Agent("a", tools=[tool], model=outer_model)
            return (await runner.run(agent, "go")).final_output

    asking = asyncio.create_task(go())
    async with aclosing(store.watch_waiting()) as items, asyncio.timeout(PATIENCE):
        answered = 0
        async for item in items:
            await store.answer(item.id, True)
            answered += 1
            if answered == 2:
                break
    assert await asking == "done"
    assert await go() == "done"
    assert paid == [1, 1]
    assert sorted(outputs_in(outer_model.heard[-1]).values()) == ["one", "two"]
    assert {"clerk c1: model 1", "clerk c1: model 2", "clerk c2: model 1", "clerk c2: model 2"} < (
        await steps_of(store)
    ).keys()


async def test_an_agent_that_is_a_tool_stops_its_run_where_it_does_not_know(
    store: foldlog.Store,
) -> None:
    is_begun = asyncio.Event()

    @function_tool
    async def pay() -> None:
        is_begun.set()
        await asyncio.Event().wait()

    clerk = Agent[Any]("clerk", tools=[pay], model=Played([call("pay", "p1")], "paid"))
    model = Played([call("clerk", "c1", input="a")], "done")

    async def go() -> Any:
        async with store.run("r", session_id="s") as run:
            runner = FoldlogRunner(run)
            tool = runner.agent(clerk).as_tool("clerk", "It pays.")
            return (await runner.run(Agent("a", tools=[tool], model=model), "go")).final_output

    await cut_short(go(), is_begun)
    with pytest.raises(StepUnknown) as unknown:
        await go()
    await store.confirm(unknown.value.id, "paid")
    assert await go() == "done"


@pytest.mark.parametrize("say", [False, True])
async def test_a_stream_is_heard_once_and_then_comes_from_the_record(
    store: foldlog.Store, say: bool
) -> None:
    model = Played([call("act", "c1")], "it is done")

    @function_tool
    def act() -> str:
        return "acted"

    agent = Agent("a", tools=[act], model=model)
    found = []
    for _ in range(2):
        async with store.run("r", session_id="s") as run:
            result = Runner.run_streamed(FoldlogRunner(run, say=say).agent(agent), "go")
            events = [
                each.data
                async for each in result.stream_events()
                if each.type == "raw_response_event"
            ]
            found.append((result.final_output, [each.type for each in events]))
    assert len(model.heard) == 2
    assert found == [
        (
            "it is done",
            ["response.completed", *["response.output_text.delta"] * 3, "response.completed"],
        ),
        ("it is done", ["response.completed"] * 2),
    ]


async def test_the_run_says_what_the_model_says(store: foldlog.Store) -> None:
    agent = Agent("a", model=Played("it is done"))
    async with foldlog.Worker(store, [durable(agent, say=True)]):
        handle = await store.start("agent", "go", id="r", session_id="s")
        said: list[Any] = [each.record.data async for each in handle.stream()]
        assert await handle.result(timeout=PATIENCE) == "it is done"
    types = [each["type"] for each in said]
    assert types == [*["response.output_text.delta"] * 3, "response.completed"]
    assert [each.get("delta") for each in said[:3]] == ["it", "is", "done"]
    usage = (await store.run("r", session_id="s").usages())["m-1"]
    assert (usage.input_tokens, usage.output_tokens) == (9, 4)


class Weather(MCPServer):
    """A server of one tool, in this process."""

    def __init__(self) -> None:
        super().__init__()
        self.called = 0

    name = "weather"

    async def connect(self) -> None: ...

    async def cleanup(self) -> None: ...

    async def list_tools(self, *args: Any, **options: Any) -> list[Tool]:
        return [Tool(name="sky", inputSchema={"type": "object", "properties": {}})]

    async def call_tool(self, *args: Any, **options: Any) -> CallToolResult:
        self.called += 1
        return CallToolResult(content=[TextContent(type="text", text="blue")])

    async def list_prompts(self) -> Any:
        raise NotImplementedError

    async def get_prompt(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


async def test_tools_of_a_server_are_steps(store: foldlog.Store) -> None:
    model, server = Played([call("sky", "c1")], "done"), Weather()
    agent = Agent("a", model=model, mcp_servers=[server])
    assert await agent_run(store, agent) == await agent_run(store, agent) == "done"
    assert server.called == 1
    assert "blue" in str(outputs_in(model.heard[-1])["c1"])
    assert (await steps_of(store))["a: sky c1"] == "done"


async def test_hosted_tools_pass_and_what_cannot_be_a_step_is_refused(store: foldlog.Store) -> None:
    shell = LocalShellTool(executor=lambda _: "")
    with pytest.raises(Misuse, match="local_shell"):
        await agent_run(store, Agent("a", tools=[shell], model=Played("done")))
    agent = Agent[Any]("a", tools=[WebSearchTool()], model=Played("done"))
    with pytest.raises(Misuse, match="session"):
        async with store.run("r", session_id="s") as run:
            await FoldlogRunner(run).run(agent, "go", session=FoldlogSession("s", store))
    with pytest.raises(Misuse, match="repeat"):
        await agent_run(store, agent, tools={"search": {"repeat": True}})
    assert await agent_run(store, agent) == "done"


async def test_a_tool_may_be_no_step_and_one_that_raises_is_the_sdks_error(
    store: foldlog.Store,
) -> None:
    did: list[str] = []

    @function_tool(failure_error_function=None)
    def fail() -> None:
        did.append("fail")
        raise ValueError("no")

    model = Played([call("fail", "c1")])
    agent = Agent("a", tools=[fail], model=model)
    options: Any = {"tools": {"fail": False}}
    for _ in range(2):
        with pytest.raises(UserError, match="no"):
            await agent_run(store, agent, **options)
    assert list(await steps_of(store)) == ["a: model 1"]
    assert did == ["fail", "fail"]


async def test_a_run_that_waits_lets_go(store: foldlog.Store) -> None:
    @function_tool
    async def ask() -> Any: ...

    agent = Agent("a", tools=[ask], model=Played([call("ask", "c1")], "done"))

    async with store.run("r", session_id="s") as run:

        async def answer(context: Any, arguments: str) -> Any:
            return await run.ask("who?", wait=0)

        ask.on_invoke_tool = answer
        with pytest.raises(RunPaused):
            await FoldlogRunner(run).run(agent, "go")
