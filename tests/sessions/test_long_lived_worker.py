"""A worker that is kept, and its agent with it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.sessions import Session
from tests.sessions.jobs import (
    TASK,
    Job,
    JobQueue,
    LongLivedWorker,
    check_ended,
    conversation,
    submit,
)
from tests.sessions.support import steer


@pytest.fixture
async def store(embedded_path: Path, namespace: str) -> AsyncIterator[foldlog.Store]:
    """A store over empty data."""
    async with foldlog.connect(path=embedded_path, namespace=namespace) as store:
        yield store


@pytest.fixture
async def queue(store: foldlog.Store, namespace: str) -> AsyncIterator[JobQueue]:
    """A queue of this test's own."""
    async with JobQueue.open(store, namespace) as queue:
        yield queue


class Agents:
    """Builds agents that fail as often as they are told to."""

    def __init__(self, failures: int = 0) -> None:
        self.built = 0
        self.failures = failures
        self.turns: list[Any] = []
        self.entered = asyncio.Event()
        self.release = asyncio.Event()
        self.release.set()

    async def build(self) -> Any:
        self.built += 1
        return self.answer

    async def answer(self, job: dict[str, Any], number: int) -> Any:
        self.entered.set()
        await self.release.wait()
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the model is away")
        self.turns.append(number)
        return job["messages"][number]


async def serve(worker: LongLivedWorker, queue: JobQueue) -> Counter[str]:
    taken: Counter[str] = Counter()
    async for job in queue.jobs(until_empty=True):
        taken[job.data["session_id"]] += 1
        await worker.work(job)
    return taken


async def acknowledged(session: Session, event_id: str) -> None:
    """Wait until somebody has taken an event: the log pushes what is appended."""
    log, taken = session._store._core.forked_log, asyncio.Event()
    subject = log.namespace.subject("session", session.session_id)
    unfollow = await log.follow(subject, lambda _: taken.set())
    async with asyncio.timeout(20):
        while not (await session.refresh()).is_acknowledged(event_id):
            await taken.wait()
            taken.clear()
    await unfollow()


async def test_the_agent_is_built_once_for_many_jobs(store: foldlog.Store, queue: JobQueue) -> None:
    agents, work = Agents(), [conversation(number, 2) for number in range(3)]
    await submit(queue, work)
    taken = await serve(LongLivedWorker(store, agents.build), queue)
    assert (agents.built, set(taken.values())) == (1, {1})
    await check_ended(store, work)


async def test_the_agent_is_built_anew_after_too_many_failures(
    store: foldlog.Store, queue: JobQueue
) -> None:
    agents, work = Agents(failures=3), [conversation(0, 2)]
    await submit(queue, work)
    worker = LongLivedWorker(store, agents.build, max_failures=2)
    taken = await serve(worker, queue)
    assert (agents.built, taken["conversation-0"]) == (2, 4)
    await check_ended(store, work)


async def test_a_user_steers_the_worker_while_it_works(
    store: foldlog.Store, queue: JobQueue
) -> None:
    agents, work = Agents(), [conversation(0, 3)]
    agents.release.clear()
    await submit(queue, work)
    serving = asyncio.create_task(serve(LongLivedWorker(store, agents.build), queue))
    await agents.entered.wait()
    async with await store.session("conversation-0") as user:
        said = steer("USER_MESSAGE", TASK, "conversation-0", "e", text="a window seat")
        await user.steer(said)
        await acknowledged(user, "e")
        agents.release.set()
    await serving
    updates = await store.list_updates("conversation-0", task_id=TASK)
    heard_in = [u.content["steering"] for u in updates if "steering" in (u.content or {})]
    assert [json.loads(text)["steering"]["event_id"] for [text] in heard_in] == ["e"]


async def test_a_user_ends_a_conversation(store: foldlog.Store, queue: JobQueue) -> None:
    agents, work = Agents(), [conversation(0, 3)]
    agents.release.clear()
    await submit(queue, work)
    serving = asyncio.create_task(serve(LongLivedWorker(store, agents.build), queue))
    await agents.entered.wait()
    async with await store.session("conversation-0") as user:
        await user.cancel_task(TASK, reason="enough")
    agents.release.set()
    taken = await serving
    assert taken["conversation-0"] == 1
    [task] = await store.list_tasks("conversation-0")
    assert (task.status, agents.turns) == ("CANCELLED", [0])


async def test_a_job_is_offered_again_when_it_is_refused(queue: JobQueue) -> None:
    await submit(queue, [conversation(0, 1)])
    attempts = []
    job: Job
    async for job in queue.jobs(until_empty=True):
        attempts.append(job.attempt)
        if job.attempt < 3:
            await job.nak(delay=0)
        else:
            await job.drop()
    assert attempts == [1, 2, 3]
