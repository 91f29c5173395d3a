"""What a steering event does to the session, beside reaching the task's inbox. Pure."""

from __future__ import annotations

from foldlog.models import SteeringEvent, SteeringEventType, TaskStatus
from foldlog.sessions import lifecycle, patches
from foldlog.sessions.decision import Decision
from foldlog.sessions.errors import IllegalTransition
from foldlog.sessions.models import MergeStrategy
from foldlog_projections import session
from foldlog_projections.session import Acknowledged

_DECISIONS = (SteeringEventType.APPROVE, SteeringEventType.REJECT)


def steer(made: Decision, event: SteeringEvent) -> bool:
    """Put an event on record and have it take effect; False if it has nothing to decide any more.

    Raises:
        UnknownTask: there is no such task. IllegalTransition: it cannot do that, or has ended.
        MergeRefused, PayloadError: a patch was approved that cannot be merged.
    """
    patch_id = event.payload.get("patch_id") if event.event_type in _DECISIONS else None
    if isinstance(patch_id, str) and patch_id in made.state.folded.decided:
        return False
    made.steer(event)
    if not isinstance(patch_id, str) or patch_id not in made.state.folded.pending:
        _steer_task(made, event)
        return True
    if event.event_type is SteeringEventType.REJECT:
        return patches.reject(made, patch_id)
    return patches.approve(made, patch_id, MergeStrategy.APPEND)


def acknowledge(made: Decision, event_id: str, worker: str) -> bool:
    """Have a worker take an event; False if somebody has."""
    if event_id in made.state.folded.acknowledged:
        return False
    made.record(session.ACKNOWLEDGED, Acknowledged(event_id, worker))
    return True


def _steer_task(made: Decision, event: SteeringEvent) -> None:
    task_id, kind = event.task_id, event.event_type
    reason = event.payload.get("reason")
    match kind:
        case SteeringEventType.PAUSE:
            lifecycle.move(made, task_id, TaskStatus.PAUSED, reason=reason or "paused")
        case SteeringEventType.RESUME:
            task = made.state.brief(task_id)
            if task.status is not TaskStatus.PAUSED:
                raise IllegalTransition(task_id, task.status, kind)
            lifecycle.move(made, task_id, TaskStatus.RUNNING, reason=reason or "resumed")
        case SteeringEventType.PRIORITIZE:
            lifecycle.prioritize(made, task_id, event.payload["priority"])
        case SteeringEventType.CANCEL:
            _cancel(made, event, reason or "cancelled")
        case _:
            lifecycle.check_unended(made, task_id, kind)


def _cancel(made: Decision, event: SteeringEvent, reason: str) -> None:
    for task_id in lifecycle.cancel(made, event.task_id, reason)[1:]:
        made.steer(
            SteeringEvent(
                session_id=event.session_id,
                task_id=task_id,
                event_id=f"{event.event_id}:{task_id}",
                event_type=SteeringEventType.CANCEL,
                payload={"reason": reason, "cascaded_from": event.task_id},
                trace_id=event.trace_id,
                source="system",
            )
        )
