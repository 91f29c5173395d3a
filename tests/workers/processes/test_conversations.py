"""The example's conversations, as its users run them: by commands, with workers that are killed."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.importer import Conversation, read_conversations
from foldlog.runs import Handle
from tests.support.workers import PATIENCE, environment

EXAMPLE = Path(__file__).parents[3] / "examples" / "workers"
REAL = EXAMPLE.parents[2] / "shared" / "data" / "tau-bench-airline.jsonl"


class Terminals:
    """Processes in the example's folder, which do not outlive the test."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.begun: list[Process] = []

    async def submit(self, file: Path) -> None:
        """Start the conversations of a file."""
        submitting = await self._begin("submit.py", str(file), str(self.data))
        async with asyncio.timeout(PATIENCE):
            assert await submitting.wait() == 0

    async def worker(self) -> Process:
        """A worker that takes conversations by now."""
        worker = await self._begin("-m", "foldlog", "worker", "conversations")
        assert worker.stdout is not None
        async with asyncio.timeout(PATIENCE):
            assert b"converse" in await worker.stdout.readline()
        return worker

    async def end(self) -> None:
        for each in self.begun:
            if each.returncode is None:
                each.kill()
            await each.communicate()

    async def _begin(self, *words: str) -> Process:
        found = environment(FOLDLOG_PATH=str(self.data))
        begun = await asyncio.create_subprocess_exec(
            sys.executable, *words, cwd=EXAMPLE, env=found, stdin=DEVNULL, stdout=PIPE
        )
        self.begun.append(begun)
        return begun


@pytest.fixture
async def terminals(tmp_path: Path) -> AsyncIterator[Terminals]:
    """A reader's terminals."""
    opened = Terminals(tmp_path / "data")
    yield opened
    await opened.end()


def recorded(file: Path) -> dict[str, list[Any]]:
    """The conversations of a file, by the ids of their runs."""
    read = (each for each in read_conversations(file) if isinstance(each, Conversation))
    return {f"conversation-{each.name}": [dict(said) for said in each.messages] for each in read}


async def said_by(run: Handle[Any]) -> list[Any]:
    return [item.record.data async for item in run.stream()]


async def check_held(store: foldlog.Store, conversations: dict[str, list[Any]]) -> None:
    """Each conversation has ended, and all of it was said once, in order."""
    for id, messages in conversations.items():
        run = store.queues.handle(id)
        assert await run.result(timeout=PATIENCE) == {"turns": len(messages)}
        assert await said_by(run) == messages, id


async def test_a_conversation_of_a_killed_worker_is_finished_by_another(
    terminals: Terminals, tmp_path: Path
) -> None:
    file = tmp_path / "one.jsonl"  # long enough to be killed in the midst of it
    turns = [{"role": "user", "content": str(number)} for number in range(1_000)]
    file.write_text(json.dumps({"id": "one", "messages": turns}))
    [id] = conversations = recorded(file)
    await terminals.submit(file)
    async with foldlog.connect(path=terminals.data) as store:
        first = await terminals.worker()
        async for item in store.queues.handle(id).stream():
            if item.record.data["content"] == "5":
                break
        first.kill()
        await first.wait()
        assert (await store.queues.handle(id).status()).value == "RUNNING"
        await terminals.worker()
        await check_held(store, conversations)


async def test_the_agent_hears_its_user_in_the_next_turn(store: foldlog.Store) -> None:
    sys.path.insert(0, str(EXAMPLE))
    try:
        from conversations import converse
    finally:
        sys.path.remove(str(EXAMPLE))
    run = await store.start(converse, [{"content": "1"}], id="trip")
    async with store.session("trip") as session:
        await session.steer(
            foldlog.SteeringEvent(
                session_id="trip",
                task_id="trip",
                event_type=foldlog.SteeringEventType.USER_MESSAGE,
                payload={"text": "a window seat"},
            )
        )
    async with foldlog.Worker(store, [converse]):
        assert await run.result(timeout=PATIENCE) == {"turns": 1}
    [said] = await said_by(run)
    assert "a window seat" in said.pop("heard")[0]
    assert said == {"content": "1"}


@pytest.mark.long
@pytest.mark.skipif(not REAL.exists(), reason="needs the recorded conversations")
async def test_real_conversations_are_held_while_workers_are_killed(terminals: Terminals) -> None:
    """Three workers, of which one is killed for each fortieth part of the conversations."""
    conversations = recorded(REAL)
    await terminals.submit(REAL)
    workers = [await terminals.worker() for _ in range(3)]
    async with foldlog.connect(path=terminals.data) as store:
        for number, id in enumerate(conversations):
            if number % (len(conversations) // 40) == 0:
                victim = workers.pop(0)
                victim.kill()
                await victim.wait()
                workers.append(await terminals.worker())
            await store.queues.handle(id).result(timeout=PATIENCE)
        await check_held(store, conversations)
