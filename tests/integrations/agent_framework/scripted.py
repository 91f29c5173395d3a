"""The scripted agent of the matrix, in Agent Framework."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
)

import foldlog
from foldlog.integrations.agent_framework import agent_in
from tests.integrations.durable.script import Script


def make(script: Script) -> Any:
    """The durable function that does the script."""
    return durable(agent_of(script))


def make_bare(script: Script) -> Any:
    """The same, without durability: what the matrix has to find out."""
    agent = agent_of(script)

    @foldlog.durable(name="agent", attempts=10)
    async def bare(run: foldlog.Run, prompt: str) -> str:
        return str((await agent.run(prompt)).text)

    return bare


def make_repeating(script: Script) -> Any:
    """The same, with tools that say wrongly that they may be done twice."""
    repeatable: Any = {"search": {"repeatable": True}, "book": {"repeatable": True}}
    return durable(agent_of(script), tools=repeatable)


def durable(agent: Any, **options: Any) -> Any:
    """The durable function of an agent: "agent", which takes a prompt."""

    @foldlog.durable(name="agent", attempts=10)
    async def function(run: foldlog.Run, prompt: str) -> str:
        return str((await agent_in(run, agent, **options).run(prompt)).text)

    return function


class ScriptClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):  # type: ignore[misc, unused-ignore]
    """A client that says what the script wants."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self._script = script

    def _inner_get_response(
        self, *, messages: Any, stream: bool, options: Any, **_: Any
    ) -> Awaitable[ChatResponse]:
        contents = [part for each in messages for part in each.contents]

        async def answer() -> ChatResponse:
            said = sum(each.role == "assistant" for each in messages)
            wanted = self._script.model(said)
            if wanted:
                calls = [
                    Content.from_function_call(
                        call_id=each.id, name=each.tool, arguments={"city": each.city}
                    )
                    for each in wanted
                ]
                return ChatResponse(messages=[Message("assistant", calls)])
            results = [str(each.result) for each in contents if each.type == "function_result"]
            return ChatResponse(messages=[Message("assistant", [self._script.answer(results)])])

        return answer()


def agent_of(script: Script) -> Agent[Any]:
    """The agent that does the script."""

    async def search(city: str) -> str:
        """Search."""
        return script.tool("search", city)

    async def book(city: str) -> str:
        """Book."""
        return script.tool("book", city)

    return Agent(ScriptClient(script), name="travel", tools=[search, book])
