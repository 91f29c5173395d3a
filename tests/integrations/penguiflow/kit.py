"""The contract kit's base for stores that take and return PenguiFlow's own classes."""

from __future__ import annotations

from types import SimpleNamespace

from penguiflow.artifacts import ArtifactScope
from penguiflow.planner import PlannerEvent, Trajectory
from penguiflow.state import models


class PenguiFlow:
    """Put before a contract class: its tests are then of PenguiFlow's models."""

    models = SimpleNamespace(
        **{name: getattr(models, name) for name in models.__all__},
        ArtifactScope=ArtifactScope,
        PlannerEvent=PlannerEvent,
        Trajectory=Trajectory,
    )
