"""Google's ADK in another process. Run as a script; says one JSON value per line.

worker.py PATH NAMESPACE WHAT

WHAT is what it does with the session "trip":

    begin      asks the agent, then appends events that count, until it is killed
    go on      asks the agent again and says what it answers, and what the user's state is
    count      waits for a line, and appends ten events, reading the session anew where it is stale
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

# Run as a script, so that a worker costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from google.adk.agents import LlmAgent
from google.adk.errors import StaleSessionError
from google.adk.events import Event, EventActions
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.genai import types

import foldlog
from foldlog.integrations.google_adk import FoldlogSessionService

TRIP: dict[str, Any] = {"app_name": "travel", "user_id": "ann", "session_id": "trip"}


class Script(BaseLlm):
    """Says how much was asked."""

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        asked = [each for each in llm_request.contents if each.role == "user"]
        yield LlmResponse(content=types.ModelContent(f"{len(asked)} questions"))


def say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def counting(number: int) -> Event:
    delta = {"n": number, "user:n": number, "app:n": number}
    return Event(author="counter", actions=EventActions(state_delta=delta))


async def ask(sessions: FoldlogSessionService, question: str) -> None:
    agent = LlmAgent(name="guide", model=Script(model="script"))
    runner = Runner(app_name="travel", agent=agent, session_service=sessions)
    message = types.UserContent(question)
    async for event in runner.run_async(user_id="ann", session_id="trip", new_message=message):
        assert event.content is not None
        say(event.content.parts[0].text)


async def begin(sessions: FoldlogSessionService) -> None:
    await sessions.create_session(**TRIP)
    await ask(sessions, "To Oslo?")
    session = await sessions.get_session(**TRIP)
    for number in itertools.count():
        await sessions.append_event(session, counting(number))
        say(number)


async def go_on(sessions: FoldlogSessionService) -> None:
    session = await sessions.get_session(**TRIP)
    say([len(session.events), session.state])
    await ask(sessions, "By train?")


async def count(sessions: FoldlogSessionService) -> None:
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)
    session = await sessions.get_session(**TRIP)
    for number in range(10):
        event = counting(number)
        while True:
            try:
                await sessions.append_event(session, event)
                break
            except StaleSessionError:
                session = await sessions.get_session(**TRIP)
    say("counted")


async def main(path: str, namespace: str, what: str) -> None:
    does = {"begin": begin, "go on": go_on, "count": count}[what]
    async with foldlog.connect(path=path, namespace=namespace) as store:
        await does(FoldlogSessionService(store))


asyncio.run(main(*sys.argv[1:]))
