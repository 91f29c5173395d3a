"""The scripted agent of the matrix, in AutoGen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    RequestUsage,
)
from autogen_ext.models.replay import ReplayChatCompletionClient

import foldlog
from foldlog.integrations.autogen import agent_in
from tests.integrations.durable.script import Script

MODEL: Any = {
    "vision": False,
    "function_calling": True,
    "json_output": True,
    "structured_output": True,
    "family": "m-1",
}
"""What the scripted model can do."""


def make(script: Script) -> Any:
    """The durable function that does the script."""
    return durable(agent_of(script))


def make_bare(script: Script) -> Any:
    """The same, without durability: what the matrix has to find out."""

    @foldlog.durable(name="agent", attempts=10)
    async def bare(run: foldlog.Run, prompt: str) -> str:
        result = await agent_of(script).run(task=prompt)
        return str(result.messages[-1].content)

    return bare


def make_repeating(script: Script) -> Any:
    """The same, with tools that say wrongly that they may be done twice."""
    repeatable: Any = {"search": {"repeatable": True}, "book": {"repeatable": True}}
    return durable(agent_of(script), tools=repeatable)


def durable(agent: Any, **options: Any) -> Any:
    """The durable function of an agent: "agent", which takes a prompt."""

    @foldlog.durable(name="agent", attempts=10)
    async def function(run: foldlog.Run, prompt: str) -> str:
        result = await agent_in(run, agent, **options).run(task=prompt)
        return str(result.messages[-1].content)

    return function


class ScriptClient(ReplayChatCompletionClient):  # type: ignore[misc, unused-ignore]
    """A client that says what the script wants."""

    def __init__(self, script: Script) -> None:
        super().__init__([], model_info=MODEL)
        self._script = script

    async def create(self, messages: Sequence[Any], **options: Any) -> CreateResult:
        said = sum(isinstance(each, AssistantMessage) for each in messages)
        wanted = self._script.model(said)
        content: Any = [
            FunctionCall(each.id, json.dumps({"city": each.city}), each.tool) for each in wanted
        ]
        if not wanted:
            results = [
                part.content
                for each in messages
                if isinstance(each, FunctionExecutionResultMessage)
                for part in each.content
            ]
            content = self._script.answer(results)
        return CreateResult(
            finish_reason="function_calls" if wanted else "stop",
            content=content,
            usage=RequestUsage(0, 0),
            cached=False,
        )


def agent_of(script: Script) -> AssistantAgent:
    """The agent that does the script."""

    async def search(city: str) -> str:
        """Search."""
        return script.tool("search", city)

    async def book(city: str) -> str:
        """Book."""
        return script.tool("book", city)

    client: ChatCompletionClient = ScriptClient(script)
    return AssistantAgent("travel", client, tools=[search, book], max_tool_iterations=9)
