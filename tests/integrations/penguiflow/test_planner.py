"""ReactPlanner: what it keeps by itself, pauses, and memory, across processes."""

from __future__ import annotations

import asyncio

import pytest
from penguiflow.planner import PlannerEvent, PlannerFinish, Trajectory, react_runtime
from penguiflow.planner.memory import ShortTermMemoryConfig

from tests.integrations.penguiflow.agents import answer, call, context, planner
from tests.integrations.penguiflow.conftest import OpenStore
from tests.support.workers import StartWorker

keeps_by_itself = pytest.mark.skipif(
    not hasattr(react_runtime, "_persist_trajectory"),
    reason="this PenguiFlow's planner does not save its own runs",
)


async def saved_by_itself() -> None:
    """Wait for the saves that a planner starts and does not await."""
    await asyncio.gather(
        *(task for task in asyncio.all_tasks() if task.get_name().startswith("penguiflow-persist"))
    )


@keeps_by_itself
async def test_a_run_keeps_its_trajectory_and_events(open_store: OpenStore) -> None:
    events: list[PlannerEvent] = []
    store = open_store()
    agent, _ = planner(store, call("echo", text="hi"), answer("bye"), event_callback=events.append)
    result = await agent.run("say hi", tool_context=context("s1", "t1"))
    assert isinstance(result, PlannerFinish)
    await saved_by_itself()
    kept = await store.list_planner_events("t1")
    assert kept == events
    assert {type(event) for event in kept} == {PlannerEvent}
    assert {"step_start", "step_complete", "finish"} <= {event.event_type for event in kept}

    restarted = open_store()
    assert await restarted.list_planner_events("t1") == events
    trajectory = await restarted.get_trajectory("t1", "s1")
    assert isinstance(trajectory, Trajectory)
    assert trajectory.query == "say hi"
    [step] = [step for step in trajectory.steps if step.action.next_node == "echo"]
    assert step.observation == {"text": "hi"}
    assert await restarted.list_traces("s1") == ["t1"]


@keeps_by_itself
async def test_a_trajectory_comes_back_as_penguiflow_restores_it(open_store: OpenStore) -> None:
    store = open_store()
    agent, _ = planner(store, call("echo", text="hi"), answer("bye"))
    await agent.run("say hi", tool_context=context("s1", "t1"))
    await saved_by_itself()
    first = await store.get_trajectory("t1", "s1")
    await store.save_trajectory("t2", "s1", first)
    assert await store.get_trajectory("t2", "s1") == Trajectory.from_serialised(first.serialise())
    assert await store.list_traces("s1") == ["t2", "t1"]


async def test_a_pause_is_resumed_by_one_other_process(start_worker: StartWorker) -> None:
    pausing = await start_worker("pause", "s1", "t1")
    token = await pausing.hear()
    await pausing.finish()

    resuming = [await start_worker("resume", token, "yes, really") for _ in range(2)]
    outcomes = [await worker.hear() for worker in resuming]
    for worker in resuming:
        await worker.finish()
    assert sorted(outcomes, key=str) == ["gone", {"answer": "all done", "was_told": True}]


@keeps_by_itself
async def test_a_pause_outlives_the_planner_but_not_its_resumption(open_store: OpenStore) -> None:
    agent, _ = planner(open_store(), call("ask", text="really?"), pause_enabled=True)
    paused = await agent.run("do it", tool_context=context("s1", "t1"))
    await saved_by_itself()
    other = open_store()
    agent, _ = planner(other, answer("done"), pause_enabled=True)
    finished = await agent.resume(
        paused.resume_token, user_input="yes", tool_context=context("s1", "t1")
    )
    assert finished.payload["raw_answer"] == "done"
    await saved_by_itself()
    kinds = [event.event_type for event in await other.list_planner_events("t1")]
    assert kinds.index("tool_call_start") < kinds.index("resume") < kinds.index("finish")
    assert await other.load_planner_state(paused.resume_token) is None


async def test_memory_outlives_its_process(
    open_store: OpenStore, start_worker: StartWorker
) -> None:
    talking = await start_worker("talk", "s1", "my name is Ada")
    assert await talking.hear() == "ok"
    await talking.finish()

    memory = ShortTermMemoryConfig(strategy="truncation")
    store = open_store()
    agent, script = planner(store, answer("Ada"), short_term_memory=memory)
    await agent.run("who am I?", tool_context=context("s1", "t2"))
    [heard] = script.heard
    assert "you said my name is Ada" in heard

    agent, script = planner(store, answer("no idea"), short_term_memory=memory)
    await agent.run("who am I?", tool_context=context("s2", "t3"))
    assert "you said my name is Ada" not in script.heard[0]
    await saved_by_itself()
