"""A worker whose agent is expensive to build and kept: `python long_lived_worker.py [PATH]`.

It builds the agent once, builds it anew after five failures in a row, and lets a user steer the
conversation that it is in: what is said to it meanwhile goes into the next turn, a pause is waited
out, and a cancellation ends it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from conversing import ENDED, TASK, Agent, begin, converse, recorded
from job_queue import Job, JobQueue
from submit import QUEUE

import foldlog
from foldlog import SteeringEventType
from foldlog.sessions import IllegalTransition, Session


class Steered:
    """An agent that hears what its user says while it works."""

    def __init__(self, agent: Agent, session: Session) -> None:
        self._agent = agent
        self._session = session
        self._said: list[str] = []
        self._may_go_on = asyncio.Event()
        self._may_go_on.set()

    async def __call__(self, job: dict[str, Any], number: int) -> Any:
        """A turn, with what was said since the last one."""
        await self._may_go_on.wait()
        said, self._said = self._said, []
        turn = await self._agent(job, number)
        return {**turn, "steering": said} if said else turn

    async def listen(self) -> None:
        """Take what is said, until the conversation is cancelled."""
        async with aclosing(self._session.inbox(TASK)) as inbox:
            async for event in inbox:
                match event.event_type:
                    case SteeringEventType.PAUSE:
                        self._may_go_on.clear()
                    case SteeringEventType.RESUME | SteeringEventType.CANCEL:
                        self._may_go_on.set()
                    case _:
                        self._said.append(event.to_injection())


class LongLivedWorker:
    """Keeps an agent, and does one job after the other with it.

    Args:
        build: makes an agent.
        max_failures: in a row, after which the agent is built anew.
    """

    def __init__(
        self,
        store: foldlog.Store,
        build: Callable[[], Awaitable[Agent]],
        *,
        max_failures: int = 5,
    ) -> None:
        self._store = store
        self._build = build
        self._max_failures = max_failures
        self._failures = 0
        self._agent: Agent | None = None

    async def work(self, job: Job) -> None:
        """Do one job. What the agent raises gives the job back to the queue."""
        if self._agent is None:
            self._agent = await self._build()
        async with await self._store.session(job.data["session_id"]) as session, job.held():
            await begin(session, job.data)
            steered = Steered(self._agent, session)
            listening = asyncio.create_task(steered.listen())
            try:
                await converse(session, self._store, job.data, steered)
            except IllegalTransition:
                await self._stopped(session, job)
            except Exception as error:  # noqa: BLE001 - whatever the agent raises
                await self._failed(job, error)
            else:
                self._failures = 0
                await job.ack()
            finally:
                listening.cancel()
                await asyncio.wait([listening])

    async def _stopped(self, session: Session, job: Job) -> None:
        """A user has paused or ended the conversation between two turns."""
        status = (await session.refresh()).task(TASK).status
        if status in ENDED:
            await job.ack()
        else:
            await job.nak(delay=0.5)

    async def _failed(self, job: Job, error: Exception) -> None:
        print(f"{job.data['session_id']}: {error!r}", file=sys.stderr)
        await job.nak(delay=0.1)
        self._failures += 1
        if self._failures >= self._max_failures:
            self._agent, self._failures = None, 0  # the next job builds another


async def main(path: str | None = None) -> None:
    """Work until there is nothing left to do."""

    async def build() -> Agent:
        return recorded

    async with foldlog.connect(path=path) as store, JobQueue.open(store, QUEUE) as queue:
        worker = LongLivedWorker(store, build)
        print("ready", flush=True)
        async for job in queue.jobs(until_empty=True):
            await worker.work(job)
            print("done", job.data["session_id"], flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
