"""Patches and paused tasks, as the list of all that waits for a person knows them."""

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
)
from foldlog.sessions import patches, steering
from foldlog.sessions.decision import Decision
from foldlog.sessions.models import PendingContextPatch
from foldlog.sessions.state import SessionState, read_session
from foldlog.sessions.writing import SessionWriter
from foldlog.store.store import BaseStore
from foldlog.store.tasks import waits_as
from foldlog.store.waiting import Ref, text_in

_LOOKED_BACK: Final = 100
"""Updates among which the checkpoint of a paused task is looked for."""


class PatchSource:
    """Patches that wait for approval."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    async def look(self, ref: Ref) -> Waiting | None:
        """See `Source.look`."""
        session_id, patch_id = ref.keys
        state = await read_session(self._store, session_id)
        queued = state.folded.pending.get(patch_id)
        if queued is None or patches.waits_as(session_id, queued) != ref:
            return None
        task = state.brief(queued.task_id) if queued.task_id in state.saved else None
        return Waiting(
            ref.id,
            ref.kind,
            PendingContextPatch.restored(queued).patch,
            ref.since_time,
            session_id=session_id,
            trace_id=None if task is None else task.trace_id,
            task_id=queued.task_id,
            by=text_in(state.context.tool_context, "user_id"),
        )

    async def answer(self, ref: Ref, answer: Any) -> Answered:
        """See `Source.answer`."""
        session_id, patch_id = ref.keys
        approve = _checked(answer)
        kind = SteeringEventType.APPROVE if approve else SteeringEventType.REJECT

        def decide(made: Decision) -> bool:
            queued = made.state.folded.pending.get(patch_id)
            if queued is None or patches.waits_as(session_id, queued) != ref:
                decision = made.state.outcome(patch_id)
                raise NotWaiting(ref.id) if decision is None else AlreadyAnswered(ref.id, decision)
            payload = {"patch_id": patch_id}
            return steering.steer(made, _event(ref, queued.task_id, kind, payload))

        await SessionWriter(session_id, self._store, None)._write(decide)
        return Answered(ref.id, ref.kind, "applied" if approve else "rejected")


class TaskSource:
    """Tasks that are paused."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    async def look(self, ref: Ref) -> Waiting | None:
        """See `Source.look`."""
        session_id, task_id = ref.keys
        state = await read_session(self._store, session_id)
        if task_id not in state.saved or not _is_paused(state, ref):
            return None
        task = state.task(task_id)
        return Waiting(
            ref.id,
            ref.kind,
            await self._asked(task),
            ref.since_time,
            session_id=session_id,
            trace_id=task.trace_id,
            task_id=task_id,
            by=text_in(task.context_snapshot.tool_context, "user_id"),
        )

    async def answer(self, ref: Ref, answer: Any) -> Answered:
        """See `Source.answer`."""
        session_id, task_id = ref.keys
        approve = _checked(answer)
        kind = SteeringEventType.RESUME if approve else SteeringEventType.CANCEL

        def decide(made: Decision) -> bool:
            if task_id not in made.state.saved:
                raise NotWaiting(ref.id)
            if not _is_paused(made.state, ref):
                status = made.state.brief(task_id).status
                raise AlreadyAnswered(ref.id, f"the task is now {status}")
            return steering.steer(made, _event(ref, task_id, kind, {}))

        await SessionWriter(session_id, self._store, None)._write(decide)
        return Answered(ref.id, ref.kind, "resumed" if approve else "cancelled")

    async def _asked(self, task: TaskState) -> dict[str, Any]:
        """What the task is about, why it paused, and the last checkpoint since it last went on."""
        asked: dict[str, Any] = {"description": task.description}
        told = await self._store.list_updates(
            task.session_id, task_id=task.task_id, limit=_LOOKED_BACK, consistency="strong"
        )
        for update in reversed(told):
            if update.update_type is UpdateType.CHECKPOINT:
                asked.setdefault("checkpoint", update.content)
            if update.update_type is UpdateType.STATUS_CHANGE:
                if update.content["status"] != TaskStatus.PAUSED:
                    break
                asked.setdefault("reason", update.content["reason"])
        return asked


def _is_paused(state: SessionState, ref: Ref) -> bool:
    task = state.brief(ref.keys[1])
    if task.status is not TaskStatus.PAUSED:
        return False
    return waits_as(state.session_id, task.task_id, task.paused_at) == ref


def _event(
    ref: Ref, task_id: str, kind: SteeringEventType, payload: dict[str, Any]
) -> SteeringEvent:
    return SteeringEvent(session_id=ref.keys[0], task_id=task_id, event_type=kind, payload=payload)


def _checked(answer: Any) -> bool:
    if not isinstance(answer, bool):
        raise PayloadError("answer", f"True approves and False rejects, not {answer!r:.80}")
    return answer
