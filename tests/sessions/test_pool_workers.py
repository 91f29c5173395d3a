"""Stateless workers that are killed, and a queue: every conversation ends once."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import foldlog
from tests.sessions.jobs import (
    EXAMPLES,
    QUEUE,
    TASK,
    JobQueue,
    check_ended,
    conversation,
    jobs_of,
    submit,
    turn_id,
)
from tests.support.workers import PATIENCE

REAL = EXAMPLES.parents[2] / "shared" / "data" / "tau-bench-airline.jsonl"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of the processes."""
    return tmp_path / "data"


@pytest.fixture
async def store(data: Path) -> AsyncIterator[foldlog.Store]:
    """What another process sees: this one."""
    async with foldlog.connect(path=data) as store:
        yield store


@pytest.fixture
async def processes() -> AsyncIterator[list[Process]]:
    """Processes that do not outlive the test."""
    started: list[Process] = []
    yield started
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def start(processes: list[Process], data: Path) -> Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLES / "pool_worker.py"),
        str(data),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    processes.append(process)
    return process


async def started(processes: list[Process], data: Path) -> Process:
    """A worker that has begun to work."""
    process = await start(processes, data)
    assert await heard(process) == "ready"
    return process


async def heard(process: Process) -> str:
    """The next line of a process; "" at its end."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        return (await process.stdout.readline()).decode().strip()


@pytest.mark.parametrize("turns", [300, pytest.param(3000, marks=pytest.mark.long)])
async def test_a_job_of_a_killed_worker_is_finished_by_another(
    store: foldlog.Store, data: Path, processes: list[Process], turns: int
) -> None:
    work = [conversation(1, turns)]  # long enough to be killed in the midst of it
    async with JobQueue.open(store, QUEUE) as queue:
        await submit(queue, work)
        first = await start(processes, data)
        async for update in store.watch_updates("conversation-1", task_id=TASK):
            if update.update_id == turn_id(5):
                break
        first.kill()
        await first.wait()
        [task] = await store.list_tasks("conversation-1")
        assert task.status == "RUNNING"
        second = await start(processes, data)
        assert [await heard(second), await heard(second)] == ["ready", "done conversation-1"]
        assert await queue.size() == 0
    await check_ended(store, work)


@pytest.mark.long
async def test_every_conversation_ends_once_while_workers_are_killed(
    store: foldlog.Store, data: Path, processes: list[Process]
) -> None:
    """Three workers, of which one is killed every second until no job is left."""
    small = [conversation(number, 40) for number in range(150)]
    work = await asyncio.to_thread(lambda: list(jobs_of(REAL))) if REAL.exists() else small
    killed = 0
    async with JobQueue.open(store, QUEUE) as queue:
        await submit(queue, work)
        workers = [await started(processes, data) for _ in range(3)]
        while await queue.size():
            victim = workers.pop(0)
            try:
                async with asyncio.timeout(1.0):
                    await victim.wait()  # it ends by itself when nothing is left
            except TimeoutError:
                victim.kill()
                killed += 1
                await victim.wait()
            workers.append(await started(processes, data))
    assert killed >= 3
    await check_ended(store, work)
