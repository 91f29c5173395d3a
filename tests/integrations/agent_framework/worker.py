"""Agent Framework in another process. Run as a script; says one JSON value per line.

worker.py PATH NAMESPACE SESSION WHAT

WHAT is what it does:

    begin      speaks twice, begins a workflow that asks, and speaks on until it is killed
    resume     waits for a line, answers what waits, if nobody else does, and says the end
    speak      waits for a line and saves ten messages, one at a time
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

# Run as a script, so that a worker costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from agent_framework import Message

import foldlog
from foldlog.integrations.agent_framework import FoldlogCheckpointStorage, FoldlogHistoryProvider
from tests.integrations.agent_framework.desk import REFUNDS, Refund, make_agent, make_workflow


def say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def begin(store: foldlog.Store, session_id: str) -> None:
    agent = make_agent(FoldlogHistoryProvider(store))
    session = agent.create_session(session_id=session_id)
    for _ in range(2):
        say((await agent.run("hello", session=session)).text)
    workflow = make_workflow(FoldlogCheckpointStorage(session_id, store, types=[Refund]))
    say(len((await workflow.run(7)).get_request_info_events()))
    while True:
        say((await agent.run("hello", session=session)).text)


async def resume(store: foldlog.Store, session_id: str) -> None:
    storage = FoldlogCheckpointStorage(session_id, store, types=[Refund])
    latest = await storage.get_latest(workflow_name=REFUNDS)
    [waits] = await store.waiting(session_id=session_id)
    await told()
    mine: Any = None

    async def go_on() -> None:
        nonlocal mine
        assert latest is not None
        request = waits.asked["payload"]["request_id"]
        ran = await make_workflow(storage).run(
            checkpoint_id=latest.checkpoint_id, responses={request: True}
        )
        mine = ran.get_outputs()[0]

    async with store.run(waits.id, session_id=waits.session_id) as run:
        await run.step("continue", go_on)
    say(mine)


async def speak(store: foldlog.Store, session_id: str) -> None:
    provider = FoldlogHistoryProvider(store)
    await told()
    for number in range(10):
        await provider.save_messages(session_id, [Message("user", [str(number)])])
    say("saved")


async def told() -> None:
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)


async def main(path: str, namespace: str, session_id: str, what: str) -> None:
    does = {"begin": begin, "resume": resume, "speak": speak}[what]
    async with foldlog.connect(path=path, namespace=namespace) as store:
        await does(store, session_id)


asyncio.run(main(*sys.argv[1:]))
