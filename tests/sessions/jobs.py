"""The examples' queue, jobs for it, and what is to be on record when they are done."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import foldlog
from tests.sessions.support import told

EXAMPLES = Path(__file__).parents[2] / "examples" / "workers"

sys.path.insert(0, str(EXAMPLES))

from conversing import TASK, turn_id  # noqa: E402  # an example is a script, not a package
from job_queue import Job, JobQueue  # noqa: E402
from long_lived_worker import LongLivedWorker  # noqa: E402
from submit import QUEUE, jobs as jobs_of  # noqa: E402

__all__ = [
    "EXAMPLES",
    "QUEUE",
    "TASK",
    "Job",
    "JobQueue",
    "LongLivedWorker",
    "check_ended",
    "conversation",
    "jobs_of",
    "submit",
    "turn_id",
]


def conversation(number: int, turns: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"{number}/{turn}"} for turn in range(turns)]
    return {"session_id": f"conversation-{number}", "messages": messages, "turns": turns}


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
