"""The contract kit's base for stores that take and return PenguiFlow's own classes."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace

import pytest
from penguiflow.artifacts import ArtifactScope
from penguiflow.planner import PlannerEvent, Trajectory
from penguiflow.state import models

HAS_CONVERSATIONS = len(fields(models.RemoteBinding)) > 4
NO_CONVERSATIONS = "this PenguiFlow has no conversation bindings"
needs_conversations = pytest.mark.skipif(not HAS_CONVERSATIONS, reason=NO_CONVERSATIONS)


class PenguiFlow:
    """Put before a contract class: its tests are then of PenguiFlow's models."""

    models = SimpleNamespace(
        **{name: getattr(models, name) for name in models.__all__},
        ArtifactScope=ArtifactScope,
        PlannerEvent=PlannerEvent,
        Trajectory=Trajectory,
    )
