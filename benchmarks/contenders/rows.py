"""Between the models and the rows of the specification's schema, for the databases."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any, Final, Protocol

from foldlog import StateUpdate, SteeringEvent, StoredEvent, UpdateType


class Row(Protocol):
    """A row as the drivers return it."""

    def __getitem__(self, column: str, /) -> Any: ...


UPDATE_COLUMNS: Final = (
    "session_id",
    "task_id",
    "trace_id",
    "update_id",
    "update_type",
    "content",
    "step_index",
    "total_steps",
    "created_at",
)
EVENT_COLUMNS: Final = (
    "trace_id", "ts", "kind", "node_name", "node_id", "event_fp", "payload"
)  # fmt: skip
STEERING_COLUMNS: Final = (
    "session_id",
    "task_id",
    "event_id",
    "event_type",
    "payload",
    "trace_id",
    "source",
    "created_at",
)


def update_row(update: StateUpdate) -> tuple[Any, ...]:
    """An update's values, in the order of UPDATE_COLUMNS."""
    return (
        update.session_id,
        update.task_id,
        update.trace_id,
        update.update_id,
        update.update_type.value,
        json.dumps(update.content),
        update.step_index,
        update.total_steps,
        update.created_at,
    )


def restored_update(row: Row) -> StateUpdate:
    """The update that a row holds: its JSON parsed, and not validated again."""
    created_at = row["created_at"]
    return StateUpdate.model_construct(
        session_id=row["session_id"],
        task_id=row["task_id"],
        trace_id=row["trace_id"],
        update_id=row["update_id"],
        update_type=UpdateType(row["update_type"]),
        content=json.loads(row["content"]),
        step_index=row["step_index"],
        total_steps=row["total_steps"],
        created_at=(
            datetime.fromisoformat(created_at) if isinstance(created_at, str) else created_at
        ),
    )


def event_row(event: StoredEvent) -> tuple[Any, ...]:
    """An event's values, in the order of EVENT_COLUMNS, with the specification's fingerprint."""
    payload = dict(event.payload)
    trace_id = event.trace_id or "__global__"
    identity = {
        "trace_id": trace_id,
        "ts": event.ts,
        "kind": event.kind,
        "node_name": event.node_name,
        "node_id": event.node_id,
        "payload": payload,
    }
    raw = json.dumps(identity, ensure_ascii=False, sort_keys=True, default=str)
    return (
        trace_id,
        event.ts,
        event.kind,
        event.node_name,
        event.node_id,
        hashlib.sha256(raw.encode()).hexdigest(),
        json.dumps(payload),
    )


def restored_event(row: Row) -> StoredEvent:
    """The event that a row holds, its JSON parsed."""
    return StoredEvent(
        trace_id=row["trace_id"],
        ts=row["ts"],
        kind=row["kind"],
        node_name=row["node_name"],
        node_id=row["node_id"],
        payload=json.loads(row["payload"]),
    )


def steering_row(event: SteeringEvent) -> tuple[Any, ...]:
    """A steering event's values, in the order of STEERING_COLUMNS."""
    return (
        event.session_id,
        event.task_id,
        event.event_id,
        event.event_type.value,
        json.dumps(event.payload),
        event.trace_id,
        event.source,
        event.created_at,
    )
