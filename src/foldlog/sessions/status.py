"""Where a task can go from where it stands. Pure.

PENDING ──► RUNNING ◄──► PAUSED
   │           │            │
   │           ├──► COMPLETE│
   └───────────┴────────────┴──► FAILED, CANCELLED
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from foldlog.models import TaskStatus
from foldlog.sessions.errors import IllegalTransition

_ENDS: Final = frozenset({TaskStatus.FAILED, TaskStatus.CANCELLED})

FINAL: Final = _ENDS | {TaskStatus.COMPLETE}
"""From here a task goes nowhere."""

NEXT: Final[Mapping[TaskStatus, frozenset[TaskStatus]]] = {
    TaskStatus.PENDING: _ENDS | {TaskStatus.RUNNING},
    TaskStatus.RUNNING: _ENDS | {TaskStatus.PAUSED, TaskStatus.COMPLETE},
    TaskStatus.PAUSED: _ENDS | {TaskStatus.RUNNING},
    TaskStatus.COMPLETE: frozenset(),
    TaskStatus.FAILED: frozenset(),
    TaskStatus.CANCELLED: frozenset(),
}


def check_transition(task_id: str, before: TaskStatus, after: TaskStatus) -> None:
    """Refuse a way that is not drawn above.

    Raises:
        IllegalTransition: it is none. Staying where it is is none either.
    """
    if after not in NEXT[before]:
        raise IllegalTransition(task_id, before, after)
