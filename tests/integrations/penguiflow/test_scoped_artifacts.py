"""Tools upload through the scoped facade, which later versions of PenguiFlow have."""

from __future__ import annotations

from typing import Any

import penguiflow.artifacts as artifacts_module
import pytest
from penguiflow.catalog import build_catalog, tool
from penguiflow.node import Node
from penguiflow.planner import ReactPlanner
from penguiflow.registry import ModelRegistry

from tests.integrations.penguiflow.agents import Question, Reply, Script, answer, call, context
from tests.integrations.penguiflow.conftest import OpenStore

if not hasattr(artifacts_module, "ScopedArtifacts"):
    pytest.skip("this PenguiFlow has no ScopedArtifacts", allow_module_level=True)


async def test_a_tool_uploads_through_the_scoped_facade(open_store: OpenStore) -> None:
    @tool(desc="Write a report")
    async def report(args: Question, ctx: Any) -> Reply:
        ref = await ctx.artifacts.upload(args.text, filename="report.txt")
        return Reply(text=ref.id)

    registry = ModelRegistry()
    registry.register("report", Question, Reply)
    planner = ReactPlanner(
        llm_client=Script(call("report", text="all is well"), answer("written")),
        catalog=build_catalog([Node(report, name="report")], registry),
        state_store=open_store(),
    )
    await planner.run("report!", tool_context=context("s1", "t1"))

    artifacts = open_store().artifact_store
    facade = {"tenant_id": "acme", "user_id": "ada", "session_id": "s1", "trace_id": "t2"}
    [ref] = await artifacts_module.ScopedArtifacts(artifacts, **facade).list()
    assert (ref.filename, ref.scope.trace_id) == ("report.txt", "t1")
    assert (
        await artifacts_module.ScopedArtifacts(artifacts, **facade).download(ref.id)
        == b"all is well"
    )
    strangers = artifacts_module.ScopedArtifacts(artifacts, **facade | {"tenant_id": "rival"})
    assert await strangers.download(ref.id) is None
