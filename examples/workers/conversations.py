"""Workers that hold conversations: `foldlog worker conversations`, as often as you like.

The agent is a recording: its turn n is message n of a file. A real one asks a model here. Kill any
worker, and another one goes on with its conversations where the log says that they are.
"""

from __future__ import annotations

import functools
from typing import Any

import foldlog


class Agent:
    """What is expensive to build: a model's client, an index, prompts."""

    async def answer(self, recorded: dict[str, Any], heard: list[str]) -> dict[str, Any]:
        """Say what happens in a turn, given what its user has said meanwhile."""
        return {**recorded, "heard": heard} if heard else recorded


@functools.cache
def agent() -> Agent:
    """The agent of this process: built for its first conversation, kept for all others."""
    return Agent()


@foldlog.durable
async def converse(run: foldlog.Run, messages: list[Any]) -> dict[str, int]:
    """Hold a conversation to its end.

    Each turn is a step, so it is on record once. `repeatable=True`: a turn whose worker was killed
    in it is done again; leave that out where a turn acts on the world.
    """
    for number, recorded in enumerate(messages):
        heard = [str(each.payload.get("text", "")) for each in await run.inbox()]
        name, answer = f"turn-{number}", agent().answer
        await run.say(await run.step(name, answer, recorded, heard, repeatable=True))
    return {"turns": len(messages)}
