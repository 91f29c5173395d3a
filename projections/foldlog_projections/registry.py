"""The kinds that every store has. A new one is a line here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from foldlog.kind import Kind

_MODULES = (
    "a2a.a2alist",
    "a2a.a2atasks",
    "google_adk.adkstates",
    "agents.agentlist",
    "agents.agentshares",
    "agents.agentstates",
    "archive",
    "artifact",
    "artifacts",
    "belongings",
    "bindings",
    "langgraph.checkpoints",
    "pydantic_ai.conversations",
    "events",
    "feedback",
    "langgraph.langgraphitems",
    "langgraph.langgraphnamespaces",
    "lineage",
    "memory",
    "messages",
    "pauses",
    "planner",
    "runs.processes",
    "runs.queues",
    "routes",
    "runs.runs",
    "runs.said",
    "runs.schedules",
    "scoped.scoped",
    "sessions.session",
    "rh_agents.stateartifacts",
    "rh_agents.statelist",
    "rh_agents.states",
    "steering",
    "streams",
    "tasks",
    "traces",
    "trajectory",
    "updates",
    "waiting",
    "agent_framework.workflowcheckpoints",
)
KINDS: tuple[Kind[Any], ...] = tuple(
    import_module(f"foldlog_projections.{name}").kind for name in _MODULES
)
FAMILIES: dict[str, Kind[Any]] = {kind.name: kind for kind in KINDS}
"""By family: the subjects of a kind carry its name."""
