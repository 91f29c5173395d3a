"""A guide on Google's ADK that knows its user, over restarts. Run it twice.

python examples/google_adk_agent.py

The first run has a tool remember where the user lives, and ends. The second one, another process
with another session, knows it. Its model is a script; yours is a real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.tools import ToolContext
from google.genai import types

import foldlog
from foldlog.integrations.google_adk import FoldlogSessionService


class Script(BaseLlm):
    """Calls the tool once, then says what is known."""

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer what was said last."""
        last = llm_request.contents[-1].parts[-1]
        known = str(llm_request.config.system_instruction).partition("lives in ")[2].split(".")[0]
        if last.function_response is None and not known:
            call = types.Part.from_function_call(name="remember_city", args={"city": "Oslo"})
            yield LlmResponse(content=types.ModelContent(call))
        else:
            said = "I will remember Oslo." if last.function_response else f"You live in {known}."
            yield LlmResponse(content=types.ModelContent(said))


def remember_city(city: str, tool_context: ToolContext) -> str:
    """Remember where the user lives, in all of their sessions."""
    tool_context.state["user:city"] = city
    return "done"


async def main() -> None:
    """Ask in a new session."""
    instruction = "The user lives in {user:city?}. Answer in one line."
    model = Script(model="script")
    agent = LlmAgent(name="guide", model=model, instruction=instruction, tools=[remember_city])
    async with foldlog.connect() as store:
        sessions = FoldlogSessionService(store)
        runner = Runner(app_name="travel", agent=agent, session_service=sessions)
        session = await sessions.create_session(app_name="travel", user_id="ann")
        message = types.UserContent("I live in Oslo. Where do I live?")
        async for event in runner.run_async(
            user_id="ann", session_id=session.id, new_message=message
        ):
            if event.is_final_response():
                print(f"{event.author}: {event.content.parts[0].text}")


if __name__ == "__main__":
    asyncio.run(main())
