"""A conversation with a remote agent is continued by whichever process has its next turn."""

from __future__ import annotations

from typing import Any

import pytest
from penguiflow.planner import ReactPlanner
from penguiflow.remote import RemoteCallRequest, RemoteCallResult

from foldlog.integrations.penguiflow import PenguiFlowStateStore
from tests.integrations.penguiflow.agents import Question, Reply, Script, answer, call, context
from tests.integrations.penguiflow.conftest import OpenStore
from tests.integrations.penguiflow.kit import HAS_CONVERSATIONS, NO_CONVERSATIONS

a2a = pytest.importorskip("penguiflow_a2a")
if not HAS_CONVERSATIONS:
    pytest.skip(NO_CONVERSATIONS, allow_module_level=True)

AGENT = "http://agent.example"


class RemoteAgent:
    """A transport to an agent that keeps one conversation. `asked` are the calls it got."""

    def __init__(self) -> None:
        self.asked: list[RemoteCallRequest] = []

    async def send(self, request: RemoteCallRequest) -> RemoteCallResult:
        self.asked.append(request)
        return RemoteCallResult(
            {"text": "noted"}, context_id="conversation", task_id=f"task-{len(self.asked)}"
        )


async def turn(store: PenguiFlowStateStore, agent: RemoteAgent, session: str, trace: str) -> None:
    toolset: Any = a2a.A2AAgentToolset(agent_url=AGENT, transport=agent)
    remote = toolset.tool(
        name="remote",
        skill="note",
        args_model=Question,
        out_model=Reply,
        desc="Have it noted",
        streaming=False,
    )
    planner = ReactPlanner(
        llm_client=Script(call("remote", text="buy milk"), answer("done")),
        catalog=[remote],
        state_store=store,
    )
    await planner.run("note it", tool_context=context(session, trace))


async def test_a_turn_finds_the_conversation_that_another_process_began(
    open_store: OpenStore,
) -> None:
    agent = RemoteAgent()
    await turn(open_store(), agent, "s1", "t1")
    await turn(open_store(), agent, "s1", "t2")
    await turn(open_store(), agent, "s2", "t3")
    assert [request.context_id for request in agent.asked] == [None, "conversation", None]

    bound = await open_store().list_bindings(router_session_id="s1")
    assert [(binding.trace_id, binding.task_id, binding.user_id) for binding in bound] == [
        ("t1", "task-1", "ada"),
        ("t2", "task-2", "ada"),
    ]
