"""The two deployments: processes that are killed, a queue, and a worker that is kept."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.sessions import Session
from tests.sessions.support import steer, told

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "workers"
REAL = ROOT.parent / "shared" / "data" / "tau-bench-airline.jsonl"

sys.path.insert(0, str(EXAMPLES))

from conversing import TASK, turn_id  # noqa: E402  # an example is a script, not a package
from job_queue import Job, JobQueue  # noqa: E402
from long_lived_worker import LongLivedWorker  # noqa: E402
from submit import QUEUE, jobs  # noqa: E402


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
    async with asyncio.timeout(60):
        return (await process.stdout.readline()).decode().strip()


def conversation(number: int, turns: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"{number}/{turn}"} for turn in range(turns)]
    return {"session_id": f"conversation-{number}", "messages": messages, "turns": turns}


def conversations(file: Path) -> list[dict[str, Any]]:
    return list(jobs(file))


async def submit(queue: JobQueue, work: list[dict[str, Any]]) -> None:
    for job in work:
        await queue.put(job["session_id"], job)


async def check_ended(store: foldlog.Store, work: list[dict[str, Any]]) -> None:
    """Every conversation has ended once, and all of it is there, in order."""
    for job in work:
        session_id = job["session_id"]
        [task] = await store.list_tasks(session_id)
        assert (task.status, task.result) == ("COMPLETE", {"turns": job["turns"]}), session_id
        moves = [each["status"] for each in await told(store, "STATUS_CHANGE", session_id)]
        assert moves == ["PENDING", "RUNNING", "COMPLETE"], session_id
        updates = await store.list_updates(session_id, task_id=TASK, limit=10_000)
        turns = [each for each in updates if each.update_type != "STATUS_CHANGE"]
        assert [each.update_id for each in turns] == [turn_id(n) for n in range(job["turns"])]
        assert [each.content for each in turns] == job["messages"], session_id


@pytest.mark.long
async def test_a_job_of_a_killed_worker_is_finished_by_another(
    store: foldlog.Store, data: Path, processes: list[Process]
) -> None:
    work = [conversation(1, 3000)]  # long enough to be killed in the midst of it
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
    work = await asyncio.to_thread(conversations, REAL) if REAL.exists() else small
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


# --- a worker that is kept ------------------------------------------------------------------------


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
    log, taken = session._journal.log, asyncio.Event()
    subject = log.namespace.subject("session", session.session_id)
    unfollow = await log.follow(subject, lambda _: taken.set())
    async with asyncio.timeout(20):
        while not (await session.refresh()).is_acknowledged(event_id):
            await taken.wait()
            taken.clear()
    await unfollow()


async def test_the_agent_is_built_once_for_many_jobs(store: foldlog.Store) -> None:
    agents, work = Agents(), [conversation(number, 2) for number in range(3)]
    async with JobQueue.open(store, QUEUE) as queue:
        await submit(queue, work)
        taken = await serve(LongLivedWorker(store, agents.build), queue)
    assert (agents.built, set(taken.values())) == (1, {1})
    await check_ended(store, work)


async def test_the_agent_is_built_anew_after_too_many_failures(store: foldlog.Store) -> None:
    agents, work = Agents(failures=3), [conversation(0, 2)]
    async with JobQueue.open(store, QUEUE) as queue:
        await submit(queue, work)
        worker = LongLivedWorker(store, agents.build, max_failures=2)
        taken = await serve(worker, queue)
    assert (agents.built, taken["conversation-0"]) == (2, 4)
    await check_ended(store, work)


async def test_a_user_steers_the_worker_while_it_works(store: foldlog.Store) -> None:
    agents, work = Agents(), [conversation(0, 3)]
    agents.release.clear()
    async with JobQueue.open(store, QUEUE) as queue:
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


async def test_a_user_ends_a_conversation(store: foldlog.Store) -> None:
    agents, work = Agents(), [conversation(0, 3)]
    agents.release.clear()
    async with JobQueue.open(store, QUEUE) as queue:
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


async def test_a_job_is_offered_again_when_it_is_refused(store: foldlog.Store) -> None:
    async with JobQueue.open(store, QUEUE) as queue:
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
