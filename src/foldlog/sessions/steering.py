"""What a steering event does to the session by itself, beside reaching the task's inbox. Pure."""

from __future__ import annotations

from foldlog.models import SteeringEvent, SteeringEventType, TaskStatus
from foldlog.sessions import lifecycle, patches, records
from foldlog.sessions.errors import IllegalTransition
from foldlog.sessions.models import MergeStrategy
from foldlog.sessions.standing import Entry, Standing
from foldlog_projections import session
from foldlog_projections.session import Acknowledged

_DECISIONS = (SteeringEventType.APPROVE, SteeringEventType.REJECT)


def steered(standing: Standing, event: SteeringEvent) -> Entry | None:
    """What an event comes to; None, if it has nothing to decide any more.

    Raises:
        UnknownTask: there is no such task. IllegalTransition: it cannot do that, or has ended.
        MergeRefused, PayloadError: a patch was approved that cannot be merged.
    """
    patch_id = event.payload.get("patch_id") if event.event_type in _DECISIONS else None
    if isinstance(patch_id, str) and patch_id in standing.state.decided:
        return None
    if isinstance(patch_id, str) and patch_id in standing.state.pending:
        entry = _decided(standing, patch_id, event)
    else:
        entry = _of_task(standing, event)
    entry.steering.insert(0, event)
    return entry


def acknowledged(standing: Standing, event_id: str, worker: str) -> Entry | None:
    """A worker takes an event; None, if somebody has."""
    if event_id in standing.state.acknowledged:
        return None
    payload = Acknowledged(event_id, worker)
    return Entry(session=[records.drafted(session.ACKNOWLEDGED, payload)])


def _decided(standing: Standing, patch_id: str, event: SteeringEvent) -> Entry:
    if event.event_type is SteeringEventType.REJECT:
        entry = patches.rejected(standing, patch_id)
    else:
        entry = patches.approved(standing, patch_id, MergeStrategy.APPEND)
    assert entry is not None, "the patch waits"
    return entry


def _of_task(standing: Standing, event: SteeringEvent) -> Entry:
    task_id, kind = event.task_id, event.event_type
    reason = event.payload.get("reason")
    match kind:
        case SteeringEventType.PAUSE:
            return lifecycle.moved(standing, task_id, TaskStatus.PAUSED, reason=reason or "paused")
        case SteeringEventType.RESUME:
            task = standing.task(task_id)
            if task.status is not TaskStatus.PAUSED:
                raise IllegalTransition(task_id, task.status, kind)
            return lifecycle.moved(
                standing, task_id, TaskStatus.RUNNING, reason=reason or "resumed"
            )
        case SteeringEventType.PRIORITIZE:
            return lifecycle.prioritised(standing, task_id, event.payload["priority"])
        case SteeringEventType.CANCEL:
            return _cancelled(standing, event, reason or "cancelled")
    lifecycle.checked_unended(standing, task_id, kind)
    return Entry()


def _cancelled(standing: Standing, event: SteeringEvent, reason: str) -> Entry:
    entry, every = lifecycle.cancelled(standing, event.task_id, reason)
    for task_id in every[1:]:
        entry.steering.append(
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
    return entry
