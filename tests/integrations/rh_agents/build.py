"""Builders for what the tests of state recovery save."""

from __future__ import annotations

from typing import Any

from foldlog.integrations.rh_agents import StateMetadata, StateSnapshot, StateStatus


def event(address: str, **fields: Any) -> dict[str, Any]:
    """An event of a history."""
    return {"address": address, "execution_status": "completed", **fields}


def snapshot(
    state_id: str = "state",
    *events: dict[str, Any],
    storage: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    **fields: Any,
) -> StateSnapshot:
    """A running state with a history and a storage."""
    values: dict[str, Any] = {
        "created_at": "2024-05-15T15:00:00+00:00",
        "updated_at": "2024-05-15T15:00:00+00:00",
        "status": StateStatus.RUNNING,
    }
    return StateSnapshot(
        state_id=state_id,
        metadata=StateMetadata(**(metadata or {})),
        execution_state={
            "history": {"events": list(events)},
            "storage": {"data": storage or {}},
            "execution_stack": [],
        },
        **(values | fields),
    )
