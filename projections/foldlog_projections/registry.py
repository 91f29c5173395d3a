"""The kinds that every store has. A new one is a line here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from foldlog.kind import Kind

_MODULES = (
    "a2alist",
    "a2atasks",
    "adkstates",
    "agentlist",
    "agentshares",
    "agentstates",
    "archive",
    "artifact",
    "artifacts",
    "belongings",
    "bindings",
    "checkpoints",
    "conversations",
    "events",
    "feedback",
    "langgraphitems",
    "langgraphnamespaces",
    "lineage",
    "memory",
    "messages",
    "pauses",
    "planner",
    "processes",
    "routes",
    "runs",
    "scoped",
    "session",
    "stateartifacts",
    "statelist",
    "states",
    "steering",
    "tasks",
    "traces",
    "trajectory",
    "updates",
    "waiting",
    "workflowcheckpoints",
)
KINDS: tuple[Kind[Any], ...] = tuple(
    import_module(f"foldlog_projections.{name}").kind for name in _MODULES
)
FAMILIES: dict[str, Kind[Any]] = {kind.name: kind for kind in KINDS}
"""By family: the subjects of a kind carry its name."""
