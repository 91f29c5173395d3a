"""PenguiFlow 2.11 to 3 on foldlog: a StateStore that takes and returns PenguiFlow's own classes.

from foldlog.integrations.penguiflow import PenguiFlowStateStore

planner = ReactPlanner(..., state_store=PenguiFlowStateStore())
"""

from foldlog.integrations.penguiflow.artifacts import PenguiFlowArtifactStore
from foldlog.integrations.penguiflow.store import PenguiFlowStateStore, create_store

__all__ = ["PenguiFlowArtifactStore", "PenguiFlowStateStore", "create_store"]
