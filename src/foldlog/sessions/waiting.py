"""Queued patches and paused tasks, as entries of the list of all that waits for a person."""

from __future__ import annotations

from typing import Any, Final

from foldlog.errors import AlreadyAnswered, NotWaiting, PayloadError
from foldlog.models import (
    Answered,
    SteeringEvent,
    SteeringEventType,
    TaskState,
    TaskStatus,
    UpdateType,
    Waiting,
    WaitingKind,
)
from foldlog.sessions import context, steering
from foldlog.sessions.decision import Decision
from foldlog.sessions.models import PendingContextPatch
from foldlog.sessions.state import SessionState, read_session
from foldlog.sessions.writing import SessionWriter
from foldlog.store.store import BaseStore
from foldlog.store.tasks import waits_as
from foldlog.store.waiting import Ref, text_in
from foldlog_projections.sessions.session import PatchQueued

_LOOKED_BACK: Final = 100
"""Updates among which the checkpoint of a paused task is looked for."""

_MEANS: Final = {
    (WaitingKind.PATCH, True): (SteeringEventType.APPROVE, "applied"),
    (WaitingKind.PATCH, False): (SteeringEventType.REJECT, "rejected"),
    (WaitingKind.TASK, True): (SteeringEventType.RESUME, "resumed"),
    (WaitingKind.TASK, False): (SteeringEventType.CANCEL, "cancelled"),
}
"""The steering event that gives an answer, and the outcome."""


class SessionSource:
    """Where patches and tasks of sessions wait: a `Source` of the list."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    async def look(self, ref: Ref) -> Waiting | None:
        """See `Source.look`."""
        session_id, key = ref.keys
        state = await read_session(self._store, session_id)
        queued = _patch(state, ref)
        if queued is None and not _is_paused(state, ref):
            return None
        task_id = key if queued is None else queued.task_id
        trace_id = state.brief(task_id).trace_id if task_id in state.saved else None
        asked: Any
        if queued is None:
            task = state.task(task_id)
            owner, asked = task.context_snapshot.tool_context, await self._asked(task)
        else:
            owner = state.context.tool_context
            asked = PendingContextPatch.restored(queued).patch
        return Waiting(
            ref.id,
            ref.kind,
            asked,
            ref.since_time,
            session_id=session_id,
            trace_id=trace_id,
            task_id=task_id,
            by=text_in(owner, "user_id"),
        )

    async def answer(self, ref: Ref, answer: Any, by: str) -> Answered:
        """See `Source.answer`."""
        session_id, key = ref.keys
        if not isinstance(answer, bool):
            raise PayloadError("answer", f"True approves and False rejects, not {answer!r:.80}")
        event_type, outcome = _MEANS[ref.kind, answer]
        about = {"by": by} if by else {}

        def decide(made: Decision) -> bool:
            queued = _patch(made.state, ref)
            if queued is None and not _is_paused(made.state, ref):
                raise _over(made.state, ref)
            event = SteeringEvent(
                session_id=session_id,
                task_id=key if queued is None else queued.task_id,
                event_type=event_type,
                payload=about if queued is None else about | {"patch_id": key},
            )
            return steering.steer(made, event)

        steered = key if ref.kind is WaitingKind.TASK else None
        await SessionWriter(session_id, self._store, None)._write(decide, steered=steered)
        return Answered(ref.id, ref.kind, outcome)

    async def _asked(self, task: TaskState) -> dict[str, Any]:
        """The task's description, why it paused, and its last checkpoint since it last ran."""
        asked: dict[str, Any] = {"description": task.description}
        latest = await self._store.list_updates(
            task.session_id, task_id=task.task_id, limit=_LOOKED_BACK, consistency="strong"
        )
        for update in reversed(latest):
            if update.update_type is UpdateType.CHECKPOINT:
                asked.setdefault("checkpoint", update.content)
            if update.update_type is UpdateType.STATUS_CHANGE:
                if update.content["status"] != TaskStatus.PAUSED:
                    break
                asked.setdefault("reason", update.content["reason"])
        return asked


def _patch(state: SessionState, ref: Ref) -> PatchQueued | None:
    """The patch that waits under a reference."""
    queued = state.folded.pending.get(ref.keys[1])
    is_it = queued is not None and context.waits_as(state.session_id, queued) == ref
    return queued if is_it else None


def _is_paused(state: SessionState, ref: Ref) -> bool:
    """Whether a task waits under a reference."""
    if ref.keys[1] not in state.saved:
        return False
    task = state.brief(ref.keys[1])
    is_paused = task.status is TaskStatus.PAUSED
    return is_paused and waits_as(state.session_id, task.task_id, task.paused_at) == ref


def _over(state: SessionState, ref: Ref) -> AlreadyAnswered | NotWaiting:
    """The error for what waits no more."""
    key = ref.keys[1]
    if ref.kind is WaitingKind.PATCH:
        decision = state.outcome(key)
    else:
        decision = f"the task is now {state.brief(key).status}" if key in state.saved else None
    return NotWaiting(ref.id) if decision is None else AlreadyAnswered(ref.id, decision)
