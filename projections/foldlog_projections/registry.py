"""The kinds that every store has. A new one is a line here."""

from __future__ import annotations

from typing import Any

from foldlog.kind import Kind
from foldlog_projections import (
    agentlist,
    agentshares,
    agentstates,
    artifacts,
    bindings,
    blobs,
    events,
    feedback,
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

KINDS: tuple[Kind[Any], ...] = (
    agentlist.kind,
    agentshares.kind,
    agentstates.kind,
    artifacts.kind,
    bindings.kind,
    blobs.kind,
    events.kind,
    feedback.kind,
    lineage.kind,
    memory.kind,
    pauses.kind,
    planner.kind,
    routes.kind,
    scoped.kind,
    scopes.kind,
    session.kind,
    stateartifacts.kind,
    statelist.kind,
    states.kind,
    steering.kind,
    tasks.kind,
    traces.kind,
    trajectory.kind,
    updates.kind,
)
FAMILIES: dict[str, Kind[Any]] = {kind.name: kind for kind in KINDS}
"""By family: the subjects of a kind carry its name."""
