"""The last saved trajectory of one trace in one session."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.kind import Content, Kind
from foldlog_projections.folds import last


class TrajectorySaved(msgspec.Struct, frozen=True):
    """`trajectory.saved`: a trajectory, serialised."""

    trajectory: Content[Any]


kind: Final = Kind(
    "trajectory",
    keys=("session_id", "trace_id"),
    owner="session",
    records={"trajectory.saved": TrajectorySaved},
    fold=last,
)
