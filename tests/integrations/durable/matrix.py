"""One killing of the matrix: what came of it, and what of that is wrong."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

import foldlog
from foldlog.models import Waiting, WaitingKind
from tests.integrations.durable.script import (
    CALLS,
    MOMENTS,
    PROMPT,
    STOPPED,
    TOOLS,
    read_calls,
    result_of,
)
from tests.support.workers import PATIENCE, StartWorker


class Came(NamedTuple):
    """What came of a run: its answer, calls and steps, and of which calls a person was asked."""

    answer: Any
    calls: list[tuple[str, str, int]]
    steps: list[str]
    asked: list[str]


async def run_agent(
    store: foldlog.Store, start: StartWorker, made_by: str, file: Path, dies_at: str = ""
) -> Came:
    """Have a worker do the framework's agent, kill or stop it there, and another one go on."""
    session = dies_at or "undisturbed"
    handle = await store.start("agent", PROMPT, id="trip", session_id=session)
    asked: list[str] = []
    answering = asyncio.create_task(_be_asked(store, session, file, asked))
    try:
        worker = await start(made_by, file, dies_at)
        assert await worker.hear() == "ready"
        if dies_at:
            code = 0 if dies_at.endswith(STOPPED) else -signal.SIGKILL
            async with asyncio.timeout(PATIENCE):
                assert await worker.process.wait() == code, await worker.complaint()
            worker = await start(made_by, file, "")
            assert await worker.hear() == "ready"
        answer = await handle.result(timeout=PATIENCE)
        os.kill(worker.process.pid, signal.SIGTERM)
        await worker.finish()
    finally:
        answering.cancel()
        await asyncio.wait([answering])
    if not answering.cancelled():
        await answering
    steps = [each.step for each in await store.run("trip", session_id=session).steps()]
    return Came(answer, read_calls(file), steps, asked)


async def _be_asked(store: foldlog.Store, session: str, file: Path, asked: list[str]) -> None:
    """Be the person who looks whether a step has happened that nobody knows of."""
    async with aclosing(store.watch_waiting(session_id=session)) as items:
        async for item in items:
            assert item.kind is WaitingKind.STEP, item
            call = _call_of(item)
            asked.append(call)
            if any(each[:2] == (call, "done") for each in read_calls(file)):
                await store.confirm(item.id, result_of(call))
            else:
                await store.retract(item.id)


def _call_of(item: Waiting) -> str:
    """Which call a step is: its arguments say it."""
    said = str(item.asked)
    [call] = [each for each in TOOLS if all(word in said for word in each.split())]
    return call


def wrong_in(came: Came, undisturbed: Came, dies_at: str = "") -> list[str]:
    """What should not have come of it.

    A model call that had ended is not made twice, nor a tool's effect without being asked for; the
    answer and the steps are those of an undisturbed run.
    """
    began = Counter(call for call, moment, _ in came.calls if moment == "begun")
    had = Counter(call for call, moment, _ in came.calls if moment == "done")
    wrong = []
    for call in CALLS:
        is_tool = call in TOOLS
        again = dies_at in [f"{call} {moment}" for moment in MOMENTS]
        if is_tool and had[call] != 1:
            wrong.append(f"the effect of {call} was had {had[call]} times")
        if not is_tool and began[call] != 1 + again:
            wrong.append(f"{call} was made {began[call]} times")
        if is_tool and began[call] > 1 and call not in came.asked:
            wrong.append(f"{call} began {began[call]} times, and nobody was asked")
        if call in came.asked and not is_tool:
            wrong.append(f"somebody was asked of {call}")
        if is_tool and again and call not in came.asked:
            wrong.append(f"nobody was asked of {call}")
    if began.keys() - set(CALLS):
        wrong.append(f"there are other calls: {began.keys() - set(CALLS)}")
    if came.answer != undisturbed.answer:
        wrong.append(f"it answered {came.answer!r}, and undisturbed {undisturbed.answer!r}")
    if sorted(came.steps) != sorted(undisturbed.steps):
        wrong.append(f"its steps are {came.steps}, and undisturbed {undisturbed.steps}")
    return wrong
