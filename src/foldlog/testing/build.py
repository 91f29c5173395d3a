"""The objects that the contract saves, made of whatever model classes a store uses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

MOMENT: Final = datetime(2024, 5, 15, 15, 0, 0, 123456, tzinfo=UTC)
"""When everything the contract saves was made, unless a test says otherwise."""


class Build:
    """Builders: every field has a value, any may be overridden.

    Args:
        models: has the model classes of the StateStore specification 2.11, section "Data Types",
            as attributes: a module, or any namespace.
    """

    def __init__(self, models: Any) -> None:
        self._models = models

    def event(self, trace_id: str | None = "trace", ts: float = 1.0, **fields: Any) -> Any:
        """Return a runtime event of `trace_id` at `ts` seconds; `fields` override."""
        values = {"kind": "node_success", "node_name": "node", "node_id": "node-1", "payload": {}}
        return self._models.StoredEvent(trace_id=trace_id, ts=ts, **(values | fields))

    def binding(self, task_id: str = "task", **fields: Any) -> Any:
        """Return a remote binding of trace `trace` and `task_id`; `fields` override."""
        values = {"trace_id": "trace", "context_id": "ctx", "agent_url": "http://worker:8080"}
        return self._models.RemoteBinding(task_id=task_id, **(values | fields))

    def task(self, task_id: str = "task", session_id: str = "session", **fields: Any) -> Any:
        """Return a pending background task `task_id` of `session_id`; `fields` override."""
        values = {
            "status": self._models.TaskStatus.PENDING,
            "task_type": self._models.TaskType.BACKGROUND,
            "priority": 5,
            "created_at": MOMENT,
            "updated_at": MOMENT,
        } | fields
        if "context_snapshot" not in values:
            values["context_snapshot"] = self.snapshot(task_id, session_id)
        return self._models.TaskState(task_id=task_id, session_id=session_id, **values)

    def snapshot(self, task_id: str = "task", session_id: str = "session", **fields: Any) -> Any:
        """Return the context of `task_id` of `session_id`; `fields` override."""
        values = {"spawned_at": MOMENT} | fields
        return self._models.TaskContextSnapshot(session_id=session_id, task_id=task_id, **values)

    def update(self, update_id: str, session_id: str = "session", **fields: Any) -> Any:
        """Return a progress update `update_id` of `session_id`; `fields` override."""
        values = {
            "task_id": "task",
            "update_type": self._models.UpdateType.PROGRESS,
            "content": {"id": update_id},
            "created_at": MOMENT,
        }
        return self._models.StateUpdate(
            session_id=session_id, update_id=update_id, **(values | fields)
        )

    def steering(self, event_id: str, session_id: str = "session", **fields: Any) -> Any:
        """Return a user message `event_id` to a task of `session_id`; `fields` override."""
        values = {
            "task_id": "task",
            "event_type": self._models.SteeringEventType.USER_MESSAGE,
            "payload": {"text": event_id},
            "created_at": MOMENT,
        }
        return self._models.SteeringEvent(
            session_id=session_id, event_id=event_id, **(values | fields)
        )

    def planner_event(self, ts: float = 1.0, **fields: Any) -> Any:
        """Return a planner event of step 0 at `ts` seconds; `fields` override."""
        values = {"event_type": "tool_call", "trajectory_step": 0}
        return self._models.PlannerEvent(ts=ts, **(values | fields))

    def trajectory(self, query: str = "where is my flight?", **fields: Any) -> Any:
        """Return a trajectory of `query` without steps; `fields` override."""
        # Empty contexts rather than none: some classes make no difference between them.
        values: dict[str, Any] = {"llm_context": {}, "tool_context": {}} | fields
        return self._models.Trajectory(query=query, **values)

    def scope(self, session_id: str | None = "session", **fields: Any) -> Any:
        """Return an owner of artifacts in `session_id`; `fields` override."""
        return self._models.ArtifactScope(session_id=session_id, **fields)
