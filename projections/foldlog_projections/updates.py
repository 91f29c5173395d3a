"""The updates of one session, in log order. An id's ordinal is its place in the list."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.kind import Content, Incidental, Kind, field_id
from foldlog_projections.folds import feed


class UpdateSaved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`update.saved`: a StateUpdate."""

    session_id: str
    task_id: str
    update_id: str
    update_type: str
    content: Content[Any]
    created_at: Incidental[str]
    trace_id: Incidental[str | None] = None
    step_index: int | None = None
    total_steps: int | None = None


kind: Final = Kind(
    "updates",
    keys=("session_id",),
    owner="session",
    records={"update.saved": UpdateSaved},
    fold=feed,
    id=field_id("update_id"),
)
