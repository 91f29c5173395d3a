"""The scripted agent of the matrix, in ADK."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner, Runner
from google.adk.tools import FunctionTool
from google.genai import types

import foldlog
from foldlog.integrations.google_adk import agent_in, sessions_in
from tests.integrations.durable.script import Script


def make(script: Script) -> Any:
    """The durable function that does the script."""
    return durable(agent_of(script))


def make_bare(script: Script) -> Any:
    """The same, without durability: what the matrix has to find out."""
    return durable(agent_of(script), is_bare=True)


def make_repeating(script: Script) -> Any:
    """The same, with tools that say wrongly that they may be done twice."""
    return durable(agent_of(script, {"foldlog": {"repeatable": True}}))


def make_stored(script: Script) -> Any:
    """The same, whose conversation is stored in the session "app/ann/" and the run's session."""
    agent = agent_of(script)

    @foldlog.durable(name="agent", attempts=10)
    async def function(run: foldlog.Run, prompt: str) -> str:
        agent_here, sessions = agent_in(run, agent), sessions_in(run)
        runner = Runner(app_name="app", agent=agent_here, session_service=sessions)
        ids = {"user_id": "ann", "session_id": run.session_id}
        events = await runner.run_debug(prompt, quiet=True, **ids)
        return str(events[-1].content.parts[0].text)

    return function


def durable(agent: LlmAgent, *, is_bare: bool = False) -> Any:
    """A durable function of an agent."""

    @foldlog.durable(name="agent", attempts=10)
    async def function(run: foldlog.Run, prompt: str) -> str:
        runner = InMemoryRunner(agent if is_bare else agent_in(run, agent))
        events = await runner.run_debug(prompt, quiet=True)
        return str(events[-1].content.parts[0].text)

    return function


def agent_of(script: Script, metadata: Any = None) -> LlmAgent:
    """The agent that does the script; its tools have that metadata."""

    class Scripted(BaseLlm):  # type: ignore[misc, unused-ignore]
        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            parts = [part for each in llm_request.contents for part in each.parts or ()]
            said = sum(each.role == "model" for each in llm_request.contents)
            wanted = script.model(said)
            if wanted:
                calls = [
                    types.Part.from_function_call(name=each.tool, args={"city": each.city})
                    for each in wanted
                ]
                yield LlmResponse(content=types.ModelContent(calls))
                return
            responses = [each.function_response for each in parts if each.function_response]
            results = [str((each.response or {}).get("result")) for each in responses]
            yield LlmResponse(content=types.ModelContent(script.answer(results)))

    async def search(city: str) -> str:
        """Search."""
        return script.tool("search", city)

    async def book(city: str) -> str:
        """Book."""
        return script.tool("book", city)

    tools = [FunctionTool(each) for each in (search, book)]
    for each in tools:
        each.custom_metadata = metadata
    return LlmAgent(name="travel", model=Scripted(model="scripted"), tools=tools)
