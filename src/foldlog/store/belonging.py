"""What belongs to a session or a trace, and goes with it."""

from __future__ import annotations

from typing import Any, Final

from foldlog_projections import (
    bindings,
    events,
    planner,
    session,
    steering,
    tasks,
    traces,
    updates,
)
from foldlog_projections.fold import Projection

OF_SESSION: Final[tuple[Projection[Any], ...]] = (tasks, updates, steering, session, traces)
"""What stands under a session, beside its artifacts and trajectories."""

OF_TRACE: Final[tuple[Projection[Any], ...]] = (events, planner, bindings)
"""What stands under a trace, beside its trajectories."""

MARKER: Final = "cleared"
"""A family without a view: a session's subject in it ends at its last clearing."""
