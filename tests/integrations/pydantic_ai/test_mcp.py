"""The tools of an MCP server are steps; a rerun does not reach the server."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ToolReturnPart

import foldlog
from foldlog.integrations.pydantic_ai import FoldlogDurability
from tests.integrations.pydantic_ai.playing import Played, call, steps_of

pytest.importorskip("fastmcp", reason="fastmcp-slim[client] is not installed")
from mcp.server.fastmcp import FastMCP
from pydantic_ai.mcp import MCPToolset


async def test_calls_and_listings_of_a_server_are_steps(store: foldlog.Store) -> None:
    served: list[Any] = []
    server = FastMCP("sums", instructions="Add with care.")

    @server.tool()
    def add(a: int, b: int) -> int:
        served.append((a, b))
        return a + b

    async def go(toolset: Any) -> list[Any]:
        played = Played([call("add", "c1", a=2, b=3), call("add", "c2", a=3, b=4)], "done")
        agent = Agent(played.model, name="a", toolsets=[toolset])
        async with store.run("r", session_id="s") as run:
            result = await agent.run("go", capabilities=[FoldlogDurability(run)])
        parts = [part for each in result.all_messages() for part in each.parts]
        return [each.content for each in parts if isinstance(each, ToolReturnPart)]

    first = await go(MCPToolset(server, id="sums", include_instructions=True))
    assert await go(MCPToolset("http://127.0.0.1:9/nobody", id="sums", include_instructions=True))
    assert sorted(served) == [(2, 3), (3, 4)]
    assert len(first) == 2
    steps = await steps_of(store)
    assert set(steps.values()) == {"done"}
    assert {"a: add c1", "a: add c2", "a: mcp_server sums.get_tools"} <= steps.keys()
