"""What waits for a person, and what an answer came to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class WaitingKind(StrEnum):
    """What waits: a planner's pause, a patch, a paused task, a run's question or doubtful step."""

    PAUSE = "pause"
    PATCH = "patch"
    TASK = "task"
    QUESTION = "question"
    STEP = "step"


@dataclass(frozen=True, slots=True)
class Waiting:
    """One thing that waits for a person: `store.answer(id, ...)` decides about it.

    A framework's request is answered through the framework: `asked["answer_in"]` says where.

    Attributes:
        id: names it and the moment since which it waits; also a cursor.
        kind: what it is.
        asked: what is asked, as its source holds it; a copy that you may change.
        session_id, trace_id, task_id: what it belongs to, as far as the source says. A run is the
            task of its name.
        step: the question or the step of a run; None for all others.
        state_id: the execution that asks; None for all others.
        since: when it began to wait.
        until: when it expires; None: never.
        by: the `user_id` of the tool context in which it was asked, for whom it is meant. None:
            anybody. The store checks no identity.
    """

    id: str
    kind: WaitingKind
    asked: Any
    since: datetime
    session_id: str | None = None
    trace_id: str | None = None
    task_id: str | None = None
    state_id: str | None = None
    step: str | None = None
    until: datetime | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """What an answer decided.

    Attributes:
        id: the item's id.
        kind: what it was.
        decision: "applied" or "rejected" for a patch, "resumed" or "cancelled" for a task,
            "answered" for a question, "confirmed" or "retracted" for a step, "consumed" for a
            pause.
        state: the planner's state of a pause, from which the caller goes on; else None.
    """

    id: str
    kind: WaitingKind
    decision: str
    state: dict[str, Any] | None = None
