"""SIGKILL, again and again: of the server, and of a process that calls it."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

from tests.faults.storms.crowd import Crowd
from tests.faults.storms.figures import Figures
from tests.faults.storms.process import CallingProcess
from tests.support.server import LocalServer

ROUND = 50
"""Kills after which a run is judged and another begins: a judge reads all that was said."""


async def server_kills(directory: Path, kills: int, seed: int = 1) -> Figures:
    """Kill the server so many times, each time in the midst of saves.

    A round has a log of its own, on a server that has no other: else each start would recover what
    all rounds before have left, and take longer and longer.
    """
    figures = Figures("SIGKILL of one server")
    rng = random.Random(seed)
    for first in range(0, kills, ROUND):
        namespace = f"round-{first}"
        async with (
            LocalServer(directory / namespace) as server,
            Crowd(server.url, namespace, seed + first) as crowd,
            CallingProcess(server.url, namespace, seed + first) as process,
        ):
            for kill in range(first, min(first + ROUND, kills)):
                await crowd.progressed()
                # At any moment of a save, those included that are about to be acked.
                await asyncio.sleep(rng.random() * 0.1)
                await server.kill()
                figures.counts["server kills"] += 1
                began = time.monotonic()
                await server.start()
                figures.took("server starting", time.monotonic() - began)
                figures.took("from the start to the next ack", await crowd.progressed())
                if kill % 8 == 7:
                    await process.kill()
                    figures.counts["client kills"] += 1
            await process.stop()
            history = await crowd.told()
            history.ops += process.ops()
            figures.judge(history, namespace)
    return figures
