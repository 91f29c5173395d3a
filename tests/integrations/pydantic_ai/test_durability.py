"""Agents as runs: their calls are steps, and what they wait for stands in the list."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    BinaryContent,
    CallDeferred,
    DeferredToolRequests,
    ModelRetry,
    RunContext,
    ToolReturn,
)
from pydantic_ai.capabilities import (
    AbstractCapability,
    Instrumentation,
    ModelFallback,
    durable_operation,
)
from pydantic_ai.exceptions import ModelHTTPError, UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import DynamicToolset, ExternalToolset, FunctionToolset

import foldlog
from foldlog import Misuse, PayloadError
from foldlog.integrations.pydantic_ai import FoldlogDurability
from foldlog.runs import RunFailed, StepUnknown
from tests.integrations.pydantic_ai.playing import (
    PATIENCE,
    Played,
    answered,
    call,
    durable,
    steps_of,
)


async def agent_run(store: foldlog.Store, agent: Any, prompt: str = "go", **options: Any) -> Any:
    """What an agent outputs in an open run."""
    async with store.run("r", session_id="s") as run:
        result = await agent.run(prompt, capabilities=[FoldlogDurability(run, **options)])
        return result.output


async def test_an_agent_with_three_tools_an_approval_and_a_crash(store: foldlog.Store) -> None:
    played = Played(
        [call("search", "c1", city="Oslo")],
        [call("price", "c2", train=7)],
        [call("book", "c3", train=7)],
        "booked",
    )
    agent = Agent(played.model, name="travel")
    did: list[str] = []

    @agent.tool_plain
    def search(city: str) -> list[int]:
        did.append("search")
        return [7]

    @agent.tool_plain
    async def price(train: int) -> float:
        did.append("price")
        if did.count("price") == 1:
            raise ConnectionError("it does not answer")
        return 80.0

    @agent.tool_plain(requires_approval=True)
    def book(train: int) -> str:
        did.append("book")
        return f"train {train}"

    async with foldlog.Worker(store, [durable(agent)]):
        handle = await store.start("agent", "a trip", id="r", session_id="s")
        [asked] = await answered(store, True)
        assert await handle.result(timeout=PATIENCE) == "booked"
    assert asked == {"tool": "book", "arguments": {"train": 7}}
    assert did == ["search", "price", "price", "book"]
    assert played.asked == 4
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


async def test_a_rerun_calls_nothing_and_has_the_same_ids(store: foldlog.Store) -> None:
    played = Played([call("act", "c1")], "done")
    agent = Agent(played.model, name="a")
    did: list[str] = []

    @agent.tool_plain
    def act() -> str:
        did.append("act")
        return "sunny"

    found = []
    for _ in range(2):
        async with store.run("r", session_id="s") as run:
            result = await agent.run("go", capabilities=[FoldlogDurability(run)])
            again = await agent.run("go", capabilities=[FoldlogDurability(run)])
            found.append((result.run_id, result.conversation_id, result.output, again.run_id))
            messages = result.all_messages()
    assert found[0] == found[1]
    assert found[0][0] == "s/r/a"
    assert found[0][3] == "s/r/a 2"
    assert [len(did), played.asked] == [2, 4]  # of the two runs of the first execution
    [returned] = [p for m in messages for p in m.parts if isinstance(p, ToolReturnPart)]
    assert returned.content == "sunny"


async def test_the_prompt_tells_one_run_of_an_agent_from_another(store: foldlog.Store) -> None:
    agent = Agent(Played("done").model, name="a")
    assert await agent_run(store, agent, "to Oslo") == "done"
    with pytest.raises(foldlog.StepChanged, match="to Bergen"):
        await agent_run(store, agent, "to Bergen")
    assert await agent_run(store, agent, "to Bergen", model={"on_change": "keep"}) == "done"


async def test_calls_that_wait_are_listed_at_once_and_each_is_answered(
    store: foldlog.Store,
) -> None:
    played = Played(
        [
            call("pay", "c1", euros=1),
            call("pay", "c2", euros=2),
            call("pay", "c3", euros=3),
            call("fetch", "c4"),
            call("remote", "c5", city="Oslo"),
        ],
        "done",
    )
    remote = ExternalToolset[None]([ToolDefinition(name="remote")], id="remote")
    agent = Agent(played.model, name="a", toolsets=[remote])
    paid: list[int] = []

    @agent.tool
    def pay(ctx: RunContext[None], euros: int) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"limit": 0})
        paid.append(euros)
        return f"paid {euros}"

    @agent.tool_plain
    def fetch() -> str:
        raise CallDeferred

    async with foldlog.Worker(store, [durable(agent)]):
        handle = await store.start("agent", "go", id="r", session_id="s")
        answers: dict[str, Any] = {
            "a: approve pay c1": True,
            "a: approve pay c2": "too expensive",
            "a: approve pay c3": {"kind": "tool-approved", "override_args": {"euros": 30}},
            "a: result of fetch c4": ["fetched"],
            "a: result of remote c5": {"sky": "blue"},
        }
        items: dict[str, Any] = {}
        async for item in store.watch_waiting():
            items[item.step or ""] = item
            if items.keys() == answers.keys():  # before the first is answered
                break
        assert items["a: approve pay c1"].asked == {
            "tool": "pay",
            "arguments": {"euros": 1},
            "about": {"limit": 0},
        }
        for step, item in items.items():
            await store.answer(item.id, answers[step])
        assert await handle.result(timeout=PATIENCE) == "done"
    assert sorted(paid) == [1, 30]
    parts = [p for m in played.messages if isinstance(m, ModelRequest) for p in m.parts]
    told = {p.tool_call_id: p.content for p in parts if isinstance(p, ToolReturnPart)}
    assert told == {
        "c1": "paid 1",
        "c2": "too expensive",
        "c3": "paid 30",
        "c4": ["fetched"],
        "c5": {"sky": "blue"},
    }


async def test_an_agent_may_end_with_what_waits_instead(store: foldlog.Store) -> None:
    agent = Agent(
        Played([call("act", "c1")]).model, name="a", output_type=[str, DeferredToolRequests]
    )

    @agent.tool_plain(requires_approval=True)
    def act() -> str:
        raise AssertionError

    output = await agent_run(store, agent, asks=False)
    assert [each.tool_name for each in output.approvals] == ["act"]
    assert await store.waiting() == []


async def test_control_flow_is_no_failure_of_a_step(store: foldlog.Store) -> None:
    agent = Agent(Played([call("act", "c1")], [call("act", "c2")], "done").model, name="a")

    @agent.tool
    def act(ctx: RunContext[None]) -> ToolReturn[str]:
        if ctx.retry == 0:
            raise ModelRetry("try again")
        return ToolReturn("ok", content=["see", BinaryContent(b"\x89PNG", media_type="image/png")])

    assert await agent_run(store, agent) == "done"
    assert await agent_run(store, agent) == "done"
    assert set((await steps_of(store)).values()) == {"done"}


@pytest.mark.parametrize(
    "value",
    [
        None,
        [1, {"pydantic_ai": 2}],
        {"pydantic_ai": {"kind": "model_retry"}},
        {"kind": "tool-return", "x": 1},
        {"kind": "image-url", "url": "https://x.example/y.png"},
        BinaryContent(b"\x89PNG", media_type="image/png"),
        dt.date(2026, 1, 1),
    ],
    ids=repr,
)
async def test_a_result_reaches_the_model_as_it_would_without_a_run(
    store: foldlog.Store, value: Any
) -> None:
    agent = Agent(Played([call("act", "c1")], "done").model, name="a")

    @agent.tool_plain
    def act() -> Any:
        return value

    def returned(result: Any) -> Any:
        parts = [part for each in result.all_messages() for part in each.parts]
        [content] = [each.content for each in parts if isinstance(each, ToolReturnPart)]
        return content

    expected = returned(await agent.run("go"))
    for _ in range(2):
        async with store.run("r", session_id="s") as run:
            result = await agent.run("go", capabilities=[FoldlogDurability(run)])
        content = returned(result)
        if isinstance(value, BinaryContent):
            assert content.data == expected.data
        else:
            assert content == (str(value) if isinstance(value, dt.date) else expected)


async def test_a_result_that_cannot_be_recorded_is_an_unknown_outcome(
    store: foldlog.Store,
) -> None:
    agent = Agent(Played([call("act", "c1")], "done").model, name="a")
    did: list[str] = []

    @agent.tool_plain
    def act() -> Any:
        did.append("act")
        return object()

    with pytest.raises(PayloadError, match="Unable to serialize unknown type"):
        await agent_run(store, agent)
    with pytest.raises(StepUnknown):
        await agent_run(store, agent)
    [item] = await store.waiting()
    assert item.asked == {"tool": "act", "arguments": {}}
    await store.confirm(item.id, "it was sunny")
    assert await agent_run(store, agent) == "done"
    assert did == ["act"]


async def test_a_tool_that_raises_lets_those_beside_it_end(store: foldlog.Store) -> None:
    agent = Agent(Played([call("fail", "c1"), call("act", "c2")], "done").model, name="a")
    begun, did = asyncio.Event(), list[str]()

    @agent.tool_plain
    async def fail() -> str:
        await begun.wait()
        did.append("fail")
        if did.count("fail") == 1:
            raise ConnectionError("down")
        return "up"

    @agent.tool_plain
    async def act() -> str:
        begun.set()
        while (await steps_of(store))["a: fail c1"] != "failed":
            await store.list_tasks("s", consistency="strong")
        await store.list_tasks("s", consistency="strong")  # so that who would cancel it does
        did.append("act")
        return "sunny"

    with pytest.raises(ConnectionError):
        await agent_run(store, agent)
    assert (await steps_of(store))["a: act c2"] == "done"
    assert await agent_run(store, agent) == "done"
    assert sorted(did) == ["act", "fail", "fail"]


async def test_a_failure_that_the_agent_got_over_fails_again(store: foldlog.Store) -> None:
    errors: list[Exception] = [ConnectionError("down"), ModelHTTPError(503, "first", "overloaded")]
    asked: list[int] = []

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append(len(messages))
        if errors:
            raise errors.pop()
        return ModelResponse([TextPart("done")])

    first, second = FunctionModel(respond), Played([call("act", "c1")])
    fallback = ModelFallback(first, second.model)
    agent = Agent(first, name="a", capabilities=[fallback])

    @agent.tool_plain
    def act() -> str:
        return "sunny"

    with pytest.raises(ConnectionError):
        await agent_run(store, agent, models={"second": second.model})
    assert await agent_run(store, agent, models={"second": second.model}) == "done"
    assert asked == [1, 3, 3]  # and not at the beginning, where it would have succeeded now
    assert second.asked == 1


async def test_a_tool_says_how_its_step_is_done(store: foldlog.Store) -> None:
    agent = Agent(Played([call("flaky", "c1"), call("inline", "c2")], "done").model, name="a")
    did: list[str] = []

    @agent.tool_plain(metadata={"foldlog": {"retries": 1, "pause": 0.0, "repeatable": True}})
    def flaky() -> str:
        did.append("flaky")
        if len(did) == 1:
            raise ConnectionError
        return "up"

    @agent.tool_plain(metadata={"foldlog": False})
    def inline() -> str:
        return "here"

    assert await agent_run(store, agent) == "done"
    assert did == ["flaky", "flaky"]
    assert set(await steps_of(store)) == {"a: model 1", "a: flaky c1", "a: model 2"}


async def test_wrong_options_are_refused(store: foldlog.Store) -> None:
    agent = Agent(Played([call("act", "c1")], "done").model, name="a")

    @agent.tool_plain(metadata={"foldlog": {"attempts": 3}})
    def act() -> str:
        raise AssertionError

    with pytest.raises(Misuse, match="attempts"):
        await agent_run(store, agent)
    with pytest.raises(Misuse, match="tries"):
        FoldlogDurability(store.run("r"), tools={"tries": 3})  # type: ignore[typeddict-unknown-key]


async def test_what_the_model_says_is_said_live(store: foldlog.Store) -> None:
    played = Played([call("act", "c1")], "it is sunny")
    agent = Agent(played.model, name="a")
    heard: list[str] = []
    is_said = asyncio.Event()

    @agent.tool_plain
    async def act() -> str:
        await is_said.wait()  # while the agent is at work
        return "sunny"

    async def hear(ctx: RunContext[None], events: Any) -> None:
        heard.extend([each.event_kind async for each in events])

    async with foldlog.Worker(store, [durable(agent, say=True, event_stream_handler=hear)]):
        handle = await store.start("agent", "go", id="r", session_id="s")
        said = []
        async for item in handle.stream():
            said.append(item.record.data)
            is_said.set()
        assert await handle.result(timeout=PATIENCE) == "it is sunny "
    deltas = [each["delta"]["content_delta"] for each in said if each["event_kind"] == "part_delta"]
    assert "".join(deltas) in "it is sunny "
    assert said[0]["part"]["tool_name"] == "act"
    assert {"part_start", "function_tool_call", "function_tool_result"} <= set(heard)
    steps = await steps_of(store)
    assert steps["a: function_tool_result c1"] == "done"
    assert played.asked == 2
    count = len(heard)
    assert await agent_run(store, agent, say=True, event_stream_handler=hear) == "it is sunny "
    assert len(heard) == count


async def test_saying_alone_makes_no_steps_of_events(store: foldlog.Store) -> None:
    agent = Agent(Played([call("act", "c1")], "sunny").model, name="a")

    @agent.tool_plain
    def act() -> str:
        return "sunny"

    assert await agent_run(store, agent, say=True) == "sunny "
    assert list(await steps_of(store)) == ["a: model 1", "a: act c1", "a: model 2"]


async def test_an_agent_in_a_tool_has_steps_of_its_own(store: foldlog.Store) -> None:
    inner_played = Played("inner 1", "inner 2")
    inner = Agent(inner_played.model, name="inner")
    agent = Agent(Played([call("ask", "c1"), call("ask", "c2")], "done").model, name="outer")
    did: list[str] = []

    @agent.tool(metadata={"foldlog": {"repeatable": True}})
    async def ask(ctx: RunContext[foldlog.Run]) -> str:
        result = await inner.run("go", capabilities=[FoldlogDurability(ctx.deps)])
        did.append(ctx.tool_call_id or "")
        if len(did) == 2:
            raise ConnectionError
        return result.output

    async def go() -> Any:
        async with store.run("r", session_id="s") as run:
            return await agent.run("go", deps=run, capabilities=[FoldlogDurability(run)])

    with pytest.raises(ConnectionError):
        await go()
    assert inner_played.asked == 2
    assert (await go()).output == "done"
    assert inner_played.asked == 2
    assert {name for name in await steps_of(store) if "inner" in name} == {
        "outer: ask c1/inner: model 1",
        "outer: ask c2/inner: model 1",
    }


async def test_a_capabilitys_operations_are_steps(store: foldlog.Store) -> None:
    class Contributor(AbstractCapability[Any]):
        id = "contributor"
        calls = 0

        async def before_run(self, ctx: RunContext[Any]) -> None:
            await self.record(ctx, "value")

        @durable_operation("record")
        async def record(self, ctx: RunContext[Any], value: str) -> str:
            Contributor.calls += 1
            return value

    agent = Agent(Played("done").model, name="a", capabilities=[Contributor()])
    for _ in range(2):
        assert await agent_run(store, agent) == "done"
    assert Contributor.calls == 1
    assert list(await steps_of(store)) == ["a: capability contributor.record", "a: model 1"]


async def test_a_time_limit_counts_from_the_first_beginning(store: foldlog.Store) -> None:
    agent = Agent(Played("done").model, name="a")
    deadlines = []
    for _ in range(2):

        @agent.instructions
        def look(ctx: RunContext[None]) -> str:
            deadlines.append(ctx.deadline)
            return ""

        async with store.run("r", session_id="s") as run:
            await agent.run("go", timeout=600, capabilities=[FoldlogDurability(run)])
    assert len(set(deadlines)) == 1
    assert "a: began" in await steps_of(store)


async def test_a_toolset_of_one_run_is_refused(store: foldlog.Store) -> None:
    agent = Agent(Played([call("act", "c1")], "done").model, name="a")
    toolset = FunctionToolset[None](id="late")
    toolset.add_function(lambda: "sunny", name="act")
    async with store.run("r", session_id="s") as run:
        with pytest.raises(UserError, match="foldlog"):
            await agent.run("go", toolsets=[toolset], capabilities=[FoldlogDurability(run)])


async def test_the_models_use_is_summed_up(store: foldlog.Store) -> None:
    agent = Agent(Played("done").model, name="a")
    await agent_run(store, agent)
    async with store.run("r", session_id="s") as run:
        [used] = (await run.usages()).values()
    assert used.output_tokens > 0


async def test_a_model_that_fails_is_asked_again_by_the_next_attempt(store: foldlog.Store) -> None:
    failing = [True]

    def respond(messages: Any, info: Any) -> Any:
        if failing:
            failing.clear()
            raise ModelHTTPError(503, "m", "overloaded")
        return Played("done")._respond(messages, info)

    agent = Agent(FunctionModel(respond), name="a")
    async with foldlog.Worker(store, [durable(agent)]):
        handle = await store.start("agent", "go", id="r", session_id="s")
        assert await handle.result(timeout=PATIENCE) == "done"


async def test_an_agent_that_goes_on_failing_fails(store: foldlog.Store) -> None:
    agent = Agent(Played(ConnectionError("down")).model, name="a")
    async with foldlog.Worker(store, [durable(agent)]):
        handle = await store.start("agent", "go", id="r", session_id="s")
        with pytest.raises(RunFailed, match="down"):
            await handle.result(timeout=PATIENCE)


async def test_a_toolset_that_a_function_makes_is_made_once(store: foldlog.Store) -> None:
    made: list[str] = []

    def make(ctx: RunContext[None]) -> FunctionToolset[None]:
        made.append("toolset")
        toolset = FunctionToolset[None]()
        toolset.add_function(lambda: made.append("act"), name="act")
        return toolset

    dynamic = DynamicToolset[None](make, id="dynamic")
    agent = Agent(Played([call("act", "c1")], "done").model, name="a", toolsets=[dynamic])
    assert await agent_run(store, agent) == "done"
    before = list(made)
    assert await agent_run(store, agent) == "done"
    assert made == before
    assert before.count("act") == 1
    steps = await steps_of(store)
    assert {"a: act c1", "a: dynamic_toolset dynamic.get_tools"} <= steps.keys()


async def test_what_a_step_would_lose_is_refused_in_it(store: foldlog.Store) -> None:
    agent = Agent(Played([call("act", "c1")], "done").model, name="a")

    @agent.tool
    def act(ctx: RunContext[None]) -> None:
        ctx.enqueue("later")

    with pytest.raises(UserError, match="enqueue"):
        await agent_run(store, agent)


async def test_streams_and_nodes_are_the_same_again(store: foldlog.Store) -> None:
    played = Played([call("act", "c1")], "it is sunny")
    agent = Agent(played.model, name="a")

    @agent.tool_plain
    def act() -> str:
        return "sunny"

    for _ in range(2):
        async with store.run("streamed", session_id="s") as run:
            options: Any = {"capabilities": [FoldlogDurability(run)]}
            async with agent.run_stream("go", **options) as streamed:
                assert await streamed.get_output() == "it is sunny "
        async with store.run("nodes", session_id="s") as run:
            options = {"capabilities": [FoldlogDurability(run)]}
            async with agent.iter("go", **options) as nodes:
                assert [type(each).__name__ async for each in nodes][-1] == "End"
    assert played.asked == 4
    expected = dict.fromkeys(("a: model 1", "a: act c1", "a: model 2"), "done")
    assert await steps_of(store, run="streamed") == await steps_of(store, run="nodes") == expected


async def test_a_rerun_reports_no_spans_of_calls_again(store: foldlog.Store) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = Instrumentation(settings=InstrumentationSettings(tracer_provider=provider))
    agent = Agent(Played([call("act", "c1")], "done").model, name="a", capabilities=[tracing])

    @agent.tool_plain
    def act() -> str:
        return "sunny"

    assert await agent_run(store, agent) == "done"
    names = [each.name for each in exporter.get_finished_spans()]
    assert sum(each.startswith("chat") for each in names) == 2
    exporter.clear()
    assert await agent_run(store, agent) == "done"
    again = [each.name for each in exporter.get_finished_spans()]
    assert len(again) == 1  # of the run, which has gone on here
    assert again[0].startswith("invoke_agent")


async def test_a_fork_goes_another_way_from_a_step(store: foldlog.Store) -> None:
    agent = Agent(Played([call("act", "c1")], "done").model, name="a")
    did: list[str] = []

    @agent.tool_plain
    def act() -> str:
        did.append("act")
        return "sunny"

    assert await agent_run(store, agent) == "done"
    await store.fork("s", at="before step a: model 2", to="s2")
    other = Played([call("act", "c1")], "done otherwise")
    with agent.override(model=other.model):
        async with store.run("r", session_id="s2") as run:
            models = {"other": other.model}
            durability = FoldlogDurability[None](run, models=models)
            result = await agent.run("go", capabilities=[durability])
    assert (result.output, other.asked, did) == ("done otherwise", 1, ["act"])
