"""A stateless worker: run as many as you like, kill any of them. `python pool_worker.py [PATH]`.

Nothing is kept from one job to the next. A job whose worker was killed goes to another one, which
goes on where the log says that the first one stopped. Ends when there are no more jobs.
"""

from __future__ import annotations

import asyncio
import sys

from conversing import TASK, converse, recorded
from job_queue import Job, JobQueue
from submit import QUEUE

import foldlog
from foldlog import FoldlogError

MOST_ATTEMPTS = 50
"""Workers that may take a conversation before it is given up: the job may be what kills them."""


async def work(store: foldlog.Store, job: Job) -> None:
    """Do one job, or say why not."""
    async with await store.session(job.data["session_id"]) as session, job.held():
        try:
            if job.attempt > MOST_ATTEMPTS:
                await session.fail_task(TASK, f"{MOST_ATTEMPTS} workers have tried")
            else:
                await converse(session, store, job.data, recorded)
        except FoldlogError as error:
            print(f"{session.session_id}: {error}", file=sys.stderr)
            await job.nak(delay=0.5)
        else:
            await job.ack()


async def main(path: str | None = None) -> None:
    """Work until there is nothing left to do."""
    async with foldlog.connect(path=path) as store, JobQueue.open(store, QUEUE) as queue:
        print("ready", flush=True)
        async for job in queue.jobs(until_empty=True):
            await work(store, job)
            print("done", job.data["session_id"], flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
