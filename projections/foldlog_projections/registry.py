"""Which projection folds which family of subjects."""

from __future__ import annotations

from typing import Any

from foldlog_projections import (
    agentlist,
    agentshares,
    agentstates,
    artifacts,
    bindings,
    blobs,
    events,
    lineage,
    memory,
    pauses,
    planner,
    routes,
    scoped,
    scopes,
    session,
    stateartifacts,
    statelist,
    states,
    steering,
    tasks,
    traces,
    trajectory,
    updates,
)
from foldlog_projections.fold import Projection

PROJECTIONS: tuple[Projection[Any], ...] = (
    agentlist,
    agentshares,
    agentstates,
    artifacts,
    bindings,
    blobs,
    events,
    lineage,
    memory,
    pauses,
    planner,
    routes,
    scoped,
    scopes,
    session,
    stateartifacts,
    statelist,
    states,
    steering,
    tasks,
    traces,
    trajectory,
    updates,
)
FAMILIES: dict[str, Projection[Any]] = {projection.name: projection for projection in PROJECTIONS}
"""By family: a view's subjects carry the name of its projection."""
