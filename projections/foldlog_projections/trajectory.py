"""The last saved trajectory of one trace in one session."""

from __future__ import annotations

from typing import Any

import msgspec

from foldlog.kind import Content, Kind
from foldlog_projections import latest
from foldlog_projections.latest import apply, initial

name = "trajectory"
version = 1
latest_only = True


class TrajectorySaved(msgspec.Struct, frozen=True):
    """`trajectory.saved`: a trajectory, serialised."""

    trajectory: Content[Any]


__all__ = ["apply", "initial", "kind", "latest_only", "name", "version"]


kind = Kind(
    "trajectory",
    keys=("session_id", "trace_id"),
    owner="session",
    records={"trajectory.saved": TrajectorySaved},
    fold=latest,
)
