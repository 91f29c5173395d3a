"""What a worker does with a conversation: begin it or go on with it, turn by turn, and end it once.

The agent is a recording: turn n of it is message n. A real one asks a model here. What makes it
safe to be killed anywhere is not the agent but how its work is kept:

- Every turn has an id that says which it is. Appending it a second time has no effect.
- What is on record tells where to go on.
- The end is a transition of the task, which the log lets happen once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import foldlog
from foldlog import TaskStatus, UpdateType
from foldlog.sessions import IllegalTransition, Session

TASK = "conversation"
ENDED = (TaskStatus.COMPLETE, TaskStatus.FAILED, TaskStatus.CANCELLED)

Agent = Callable[[dict[str, Any], int], Awaitable[Any]]
"""Given a job and the number of a turn, says what happens in it."""


async def recorded(job: dict[str, Any], number: int) -> Any:
    """The agent of these examples."""
    return job["messages"][number]


async def converse(
    session: Session, store: foldlog.Store, job: dict[str, Any], agent: Agent
) -> None:
    """Take a conversation from wherever it is to its end.

    Raises:
        IllegalTransition: it was cancelled or paused under way. Others as the agent does.
    """
    await begin(session, job)
    if session.get_task(TASK).status in ENDED:
        return  # cancelled; or its last worker died before it could say so to the queue
    turns = job["turns"]
    updates = await store.list_updates(session.session_id, task_id=TASK, limit=10 * turns + 100)
    on_record = {update.update_id for update in updates}
    for number in range(turns):
        if turn_id(number) not in on_record:
            said = await agent(job, number)
            kind = UpdateType.TOOL_CALL if said.get("role") == "tool" else UpdateType.THINKING
            await session.report(
                TASK,
                said,
                update_type=kind,
                update_id=turn_id(number),
                step_index=number,
                total_steps=turns,
            )
    await session.complete_task(TASK, {"turns": turns})


async def begin(session: Session, job: dict[str, Any]) -> None:
    """Have the conversation's task run, unless it does, or has ended."""
    task = await session.spawn_task(task_id=TASK, description=job.get("description"))
    if task.status is TaskStatus.PENDING:
        try:
            await session.start_task(TASK)
        except IllegalTransition:
            await session.refresh()  # another worker was faster; it may be dead by now


def turn_id(number: int) -> str:
    """The id of a turn's update."""
    return f"turn-{number}"
