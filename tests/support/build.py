"""Builders for the objects that tests save: every field has a value, any may be overridden."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import foldlog

MOMENT = datetime(2024, 5, 15, 15, 0, 0, 123456, tzinfo=UTC)


def event(trace_id: str | None = "trace", ts: float = 1.0, **fields: Any) -> foldlog.StoredEvent:
    """A runtime event."""
    values: dict[str, Any] = {
        "kind": "node_success",
        "node_name": "node",
        "node_id": "node-1",
        "payload": {},
    }
    return foldlog.StoredEvent(trace_id=trace_id, ts=ts, **(values | fields))


def binding(task_id: str = "task", **fields: Any) -> foldlog.RemoteBinding:
    """A remote binding of trace `trace` in context `ctx`."""
    values: dict[str, Any] = {
        "trace_id": "trace",
        "context_id": "ctx",
        "agent_url": "http://worker:8080",
    }
    return foldlog.RemoteBinding(task_id=task_id, **(values | fields))


def task(task_id: str = "task", session_id: str = "session", **fields: Any) -> foldlog.TaskState:
    """A pending background task."""
    values: dict[str, Any] = {
        "status": foldlog.TaskStatus.PENDING,
        "task_type": foldlog.TaskType.BACKGROUND,
        "priority": 5,
        "created_at": MOMENT,
        "updated_at": MOMENT,
    }
    values = values | fields
    if "context_snapshot" not in values:
        values["context_snapshot"] = foldlog.TaskContextSnapshot(
            session_id=session_id, task_id=task_id, spawned_at=MOMENT
        )
    return foldlog.TaskState(task_id=task_id, session_id=session_id, **values)


def update(update_id: str, session_id: str = "session", **fields: Any) -> foldlog.StateUpdate:
    """A progress update of task `task`."""
    values: dict[str, Any] = {
        "task_id": "task",
        "update_type": foldlog.UpdateType.PROGRESS,
        "content": {"id": update_id},
        "created_at": MOMENT,
    }
    return foldlog.StateUpdate(session_id=session_id, update_id=update_id, **(values | fields))


def steering(event_id: str, session_id: str = "session", **fields: Any) -> foldlog.SteeringEvent:
    """A user message to task `task`."""
    values: dict[str, Any] = {
        "task_id": "task",
        "event_type": foldlog.SteeringEventType.USER_MESSAGE,
        "payload": {"text": event_id},
        "created_at": MOMENT,
    }
    return foldlog.SteeringEvent(session_id=session_id, event_id=event_id, **(values | fields))


def planner_event(ts: float = 1.0, **fields: Any) -> foldlog.PlannerEvent:
    """A planner event of step 0."""
    values: dict[str, Any] = {"event_type": "tool_call", "trajectory_step": 0}
    return foldlog.PlannerEvent(ts=ts, **(values | fields))


def trajectory(query: str = "where is my flight?", **fields: Any) -> foldlog.Trajectory:
    """A trajectory without steps."""
    return foldlog.Trajectory(query=query, **fields)
