"""The last saved trajectory of one trace in one session."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Content, Kind
from foldlog.words import Shown
from foldlog_projections.folds import last


class TrajectorySaved(msgspec.Struct, frozen=True):
    """`trajectory.saved`: a trajectory, serialised."""

    trajectory: Content[Any]


def _entries(saved: Recorded | None) -> dict[str, Any]:
    return {} if saved is None else {"": kind.decode(saved).trajectory}


kind: Final = Kind(
    "trajectory",
    keys=("session_id", "trace_id"),
    owner="session",
    records={"trajectory.saved": TrajectorySaved},
    fold=last,
    shown=Shown(
        {"trajectory.saved": "trajectory {trace_id} saved: {trajectory}"},
        entries=_entries,
        group="events",
    ),
)
