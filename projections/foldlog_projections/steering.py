"""The steering events of one session, in log order. An id's ordinal is its place in the list."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.kind import Content, Incidental, Kind, field_id
from foldlog_projections.folds import feed


class SteeringSaved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`steering.saved`: a SteeringEvent, sanitised."""

    session_id: str
    task_id: str
    event_id: str
    event_type: str
    payload: Content[Any]
    source: str
    created_at: Incidental[str]
    trace_id: Incidental[str | None] = None


kind: Final = Kind(
    "steering",
    keys=("session_id",),
    owner="session",
    records={"steering.saved": SteeringSaved},
    fold=feed,
    id=field_id("event_id"),
)
