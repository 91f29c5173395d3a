"""The playground's backend on the adapter: what its user interface asks for."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from penguiflow.artifacts import ArtifactScope, ArtifactStore
from penguiflow.cli.playground import create_playground_app
from penguiflow.cli.playground_wrapper import PlannerAgentWrapper
from penguiflow.sessions import SessionManager, TaskResult, TaskType
from penguiflow.state import TaskStatus

from foldlog.integrations.penguiflow import PenguiFlowStateStore
from tests.integrations.penguiflow.agents import answer, call, planner
from tests.integrations.penguiflow.conftest import OpenStore

# The playground registers its shutdown in a way that FastAPI gives up.
pytestmark = pytest.mark.filterwarnings(r"ignore:\s+on_event is deprecated:DeprecationWarning")


def app(store: PenguiFlowStateStore, project: Path, *lines: Any) -> FastAPI:
    agent, _ = planner(store, *lines)
    # Before the planner saved its runs by itself, the playground's wrapper did.
    saves = "state_store" in inspect.signature(PlannerAgentWrapper).parameters
    wrapper = PlannerAgentWrapper(agent, **{"state_store": store} if saves else {})
    return create_playground_app(project, agent=wrapper, state_store=store)


def client(store: PenguiFlowStateStore, project: Path, *lines: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app(store, project, *lines))
    return httpx.AsyncClient(transport=transport, base_url="http://test")


@pytest.fixture
async def ui(store: PenguiFlowStateStore, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A playground whose agent echoes once, then answers."""
    lines = call("echo", text="hi"), answer("bye")
    async with client(store, tmp_path, *lines) as ui:
        yield ui
        await ui.delete("/sessions/s1")


def frames(text: str) -> list[Any]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


async def test_a_chat_leaves_a_trajectory_and_events(
    ui: httpx.AsyncClient, open_store: OpenStore, tmp_path: Path
) -> None:
    said = (await ui.post("/chat", json={"query": "say hi", "session_id": "s1"})).json()
    assert said["answer"] == "bye"
    trace = said["trace_id"]

    # From this process, and from one that starts later on the same data.
    async with client(open_store(), tmp_path) as later:
        for asked in (ui, later):
            got = await asked.get(f"/trajectory/{trace}", params={"session_id": "s1"})
            assert got.status_code == 200
            assert got.json()["query"] == "say hi"
            assert any(step["observation"] == {"text": "hi"} for step in got.json()["steps"])
            missing = await asked.get(f"/trajectory/{trace}", params={"session_id": "s2"})
            assert missing.status_code == 404
            told = await asked.get("/events", params={"trace_id": trace, "session_id": "s1"})
            assert {"connected", "finish"} <= {frame.get("event") for frame in frames(told.text)}


@pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")
def test_every_request_may_have_an_event_loop_of_its_own(
    open_store: OpenStore, tmp_path: Path
) -> None:
    from fastapi.testclient import TestClient

    ui = TestClient(app(open_store(), tmp_path, call("echo", text="hi"), answer("bye")))
    said = ui.post("/chat", json={"query": "say hi", "session_id": "s1"}).json()
    asked = {"trace_id": said["trace_id"], "session_id": "s1"}
    told = frames(ui.get("/events", params=asked).text)
    # All of the run's events, though the loop that was saving them has ended with the request.
    assert told[-1]["event"] == "finish"
    assert ui.get(f"/trajectory/{said['trace_id']}", params=asked).json()["query"] == "say hi"


async def test_a_streamed_chat(ui: httpx.AsyncClient) -> None:
    told = await ui.get("/chat/stream", params={"query": "say hi", "session_id": "s1"})
    assert any(frame.get("answer") == "bye" for frame in frames(told.text))


async def test_tasks_and_steering(
    ui: httpx.AsyncClient, open_store: OpenStore, store: PenguiFlowStateStore
) -> None:
    async def add(_: Any) -> TaskResult:
        return TaskResult(payload={"sum": 3})

    session = await SessionManager(state_store=open_store()).get_or_create("s1")
    await session.run_task(add, task_type=TaskType.BACKGROUND, task_id="earlier")
    await session.close()

    [listed] = (await ui.get("/tasks", params={"session_id": "s1"})).json()
    assert (listed["task_id"], listed["status"]) == ("earlier", TaskStatus.COMPLETE.value)
    got = await ui.get("/tasks/earlier", params={"session_id": "s1"})
    assert got.json()["result"] == {"sum": 3}
    assert (await ui.get("/session/s1/task-state")).json()["background_tasks"] == []

    event = {"session_id": "s1", "task_id": "earlier", "event_id": "e1", "event_type": "PAUSE"}
    assert (await ui.post("/steer", json=event)).status_code == 200
    refused = await ui.post("/steer", json=event | {"event_type": "REDIRECT", "payload": {}})
    assert refused.status_code == 422
    assert [steered.event_id for steered in await store.list_steering("s1")] == ["e1"]


async def test_artifacts(ui: httpx.AsyncClient, store: PenguiFlowStateStore) -> None:
    ref = await store.artifact_store.put_text(
        "hello", filename="a.txt", scope=ArtifactScope(session_id="s1")
    )
    mine, strangers = {"X-Session-ID": "s1"}, {"X-Session-ID": "s2"}
    if hasattr(ArtifactStore, "list"):
        [listed] = (await ui.get("/artifacts", headers=mine)).json()
        assert listed["id"] == ref.id
        assert (await ui.get("/artifacts", headers=strangers)).json() == []
    got = await ui.get(f"/artifacts/{ref.id}", headers=mine)
    assert got.content == b"hello"
    assert got.headers["content-type"].startswith("text/plain")
    assert (await ui.get(f"/artifacts/{ref.id}", headers=strangers)).status_code == 404
    meta = await ui.get(f"/artifacts/{ref.id}/meta", headers=mine)
    assert meta.json()["filename"] == "a.txt"
