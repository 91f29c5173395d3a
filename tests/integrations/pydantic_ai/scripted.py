"""The scripted agent of the matrix, in Pydantic AI."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

import foldlog
from foldlog.integrations.pydantic_ai import FoldlogDurability
from tests.integrations.durable.script import Script


def make(script: Script) -> Any:
    """The durable function that does the script."""
    return durable(agent_of(script))


def make_bare(script: Script) -> Any:
    """The same, without durability: what the matrix has to find out."""
    agent = agent_of(script)

    @foldlog.durable(name="agent", attempts=10)
    async def bare(run: foldlog.Run, prompt: str) -> str:
        result = await agent.run(prompt)
        return result.output

    return bare


def make_repeating(script: Script) -> Any:
    """The same, with tools that say wrongly that they may be done twice."""
    return durable(agent_of(script, {"foldlog": {"repeatable": True}}))


def durable(agent: Agent[None, str]) -> Any:
    """A durable function of an agent."""

    @foldlog.durable(name="agent", attempts=10)
    async def function(run: foldlog.Run, prompt: str) -> str:
        result = await agent.run(prompt, capabilities=[FoldlogDurability(run)])
        return result.output

    return function


def agent_of(script: Script, metadata: Any = None) -> Agent[None, str]:
    """The agent that does the script; its tools have that metadata."""

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        wanted = script.model(sum(isinstance(each, ModelResponse) for each in messages))
        if wanted:
            calls = [ToolCallPart(c.tool, {"city": c.city}, tool_call_id=c.id) for c in wanted]
            return ModelResponse(calls)
        parts = [part for each in messages if isinstance(each, ModelRequest) for part in each.parts]
        results = [str(each.content) for each in parts if isinstance(each, ToolReturnPart)]
        return ModelResponse([TextPart(script.answer(results))])

    agent = Agent(FunctionModel(respond), name="travel")

    @agent.tool_plain(metadata=metadata)
    async def search(city: str) -> str:
        return script.tool("search", city)

    @agent.tool_plain(metadata=metadata)
    async def book(city: str) -> str:
        return script.tool("book", city)

    return agent
