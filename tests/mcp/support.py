"""The SDK's client, of either version, and a log that has what an agent may ask for."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from mcp.client.stdio import stdio_client

import foldlog
from foldlog import StateUpdate, UpdateType
from foldlog.mcp.answers import ANSWER
from foldlog.runs import RunFailed, RunPaused
from mcp import ClientSession, StdioServerParameters
from tests.cli.support import ENVIRONMENT, Cli

MOST = ANSWER + 4_000
"""Characters that no answer exceeds: the last item, and what stands around the list."""

UPDATES = 10_000
LARGE = 5_000_000


class Answer(NamedTuple):
    """What a tool answered."""

    text: str
    is_error: bool

    @property
    def document(self) -> Any:
        """The answer as JSON."""
        assert not self.is_error, self.text
        return json.loads(self.text)


class Client:
    """One client of a server."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def __call__(self, tool: str, **asked: Any) -> Answer:
        """Call a tool. No answer is larger than it may be."""
        result = await self.session.call_tool(tool, asked)
        text = "".join(part.text for part in result.content if part.type == "text")
        assert len(text) <= MOST, f"{tool} {asked}: {len(text)} characters"
        return Answer(text, result.model_dump(by_alias=True)["isError"])

    async def fails(self, tool: str, **asked: Any) -> str:
        """Call a tool that refuses; return what it says."""
        answer = await self(tool, **asked)
        assert answer.is_error, answer.text
        return answer.text


@asynccontextmanager
async def talking(read: Any, write: Any) -> AsyncIterator[Client]:
    """A client over a transport's streams."""
    async with ClientSession(read, write) as session:
        await session.initialize()
        yield Client(session)


@asynccontextmanager
async def asking(cli: Cli) -> AsyncIterator[Client]:
    """A client of `foldlog mcp`, as an agent's program starts it."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "foldlog", "mcp", *cli.options],
        env={**os.environ, **ENVIRONMENT},
    )
    async with stdio_client(server) as (read, write), talking(read, write) as client:
        yield client


def update(session: str, number: int, text: str) -> StateUpdate:
    """An update of a session."""
    return StateUpdate(
        session_id=session,
        task_id="task",
        update_id=f"{session}-{number}",
        update_type=UpdateType.PROGRESS,
        content={"text": text},
    )


@foldlog.durable
async def research(run: foldlog.Run, city: str) -> str:
    """A run that workers do, and that fails."""
    return await run.step("ask", _no_answer, city)


def _no_answer(city: str) -> str:
    raise ConnectionError(f"{city} does not answer")


async def fill(store: foldlog.Store) -> None:
    """Save what agents leave behind: runs, a question, long and large things."""
    async with store.run("book-oslo", session_id="ann", description="a flight to Oslo") as run:
        await run.step("search", lambda city: [{"flight": 7, "to": city}], "Oslo")
        await run.step("scan", lambda: "x" * LARGE)
        try:
            await run.step("buy", _no_answer, "the airline")
        except ConnectionError:
            await run.step("apologise", lambda: False)
    try:
        async with store.run("ask", session_id="ann") as run:
            await run.ask("buy", "Buy for 80 euros?", wait=0)
    except RunPaused:
        pass
    everything = (update("long", n, f"working on {n}") for n in range(UPDATES))
    await asyncio.gather(*map(store.save_update, everything))
    await store.save_update(update("huge", 0, "y" * 900_000))
    async with foldlog.Worker(store, [research]):
        handle = await store.start(research, "Bergen", id="bergen")
        try:
            await handle.result()
        except RunFailed:
            pass
