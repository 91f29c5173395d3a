"""What becomes of a queue when tasks move: a run that ended leaves it, one that may go on joins it.

Pure. A run is in a queue only if workers do it (`store.start`).
"""

from __future__ import annotations

from collections.abc import Mapping

from foldlog.envelope import Draft
from foldlog.errors import NotFound
from foldlog.models import TaskStatus
from foldlog.sessions.decision import Decision
from foldlog.sessions.lifecycle import FINAL
from foldlog.store.payloads import encode
from foldlog_projections.runs import queues, runs
from foldlog_projections.runs.queues import Left


def queue_records(made: Decision, known: Mapping[str, runs.State]) -> list[Draft]:
    """Return what a decision adds to the queues, given the runs that it concerns, by name.

    A run ends: it leaves, and the one that waits for it goes on once all have ended that it waits
    for. One that is cancelled while somebody has it leaves with its owner: its code may still go
    on. A run that nobody has is resumed, or answered: it goes on.
    """
    found = list[Draft]()
    for name, run in known.items():
        if run.job is None:
            continue
        status = made.moved.get(name)
        is_had = bool(run.tenure) and run.session_id == made.session_id
        if status is TaskStatus.CANCELLED and is_had:
            continue
        if status in FINAL:
            is_failed = status is TaskStatus.FAILED
            found.append(encode(queues.kind, Left(made.session_id, name, is_failed)))
        elif not run.tenure and (status is TaskStatus.RUNNING or _goes_on(made, run)):
            found.append(encode(queues.kind, run.job.added(made.session_id, name)))
    return found


def _goes_on(made: Decision, run: runs.State) -> bool:
    """Whether the last of the runs has ended now that a run waits for."""
    return any(made.moved.get(each) in FINAL for each in run.awaits) and all(
        has_ended(made, each) for each in run.awaits
    )


def has_ended(made: Decision, task_id: str) -> bool:
    """Whether a task has ended, or is gone."""
    try:
        return made.status(task_id) in FINAL
    except NotFound:
        return True
