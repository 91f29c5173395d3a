"""State recovery as rh-agents' plan has it: executions with snapshots, on runs of a store.

`StateBackend(store)` is the backend of an open store. The guide is
`docs/guides/execution-data.md`.
"""

from foldlog.differences import ABSENT
from foldlog.integrations.rh_agents.artifacts import ArtifactBackend, Garbage
from foldlog.integrations.rh_agents.backend import StateBackend
from foldlog.integrations.rh_agents.blocking import SyncArtifactBackend, SyncStateBackend
from foldlog.integrations.rh_agents.execution import Execution
from foldlog.integrations.rh_agents.migrations import IncompatibleState, Migrations
from foldlog.integrations.rh_agents.models import (
    SCHEMA_VERSION,
    AutoCheckpointConfig,
    EventBus,
    EventType,
    ExecutionEvent,
    ExecutionStatus,
    ReplayMode,
    StateDiff,
    StateMetadata,
    StateSnapshot,
    StateStatus,
)
from foldlog.integrations.rh_agents.validation import Mismatch, Validation

__all__ = [
    "ABSENT",
    "SCHEMA_VERSION",
    "ArtifactBackend",
    "AutoCheckpointConfig",
    "EventBus",
    "EventType",
    "Execution",
    "ExecutionEvent",
    "ExecutionStatus",
    "Garbage",
    "IncompatibleState",
    "Migrations",
    "Mismatch",
    "ReplayMode",
    "StateBackend",
    "StateDiff",
    "StateMetadata",
    "StateSnapshot",
    "StateStatus",
    "SyncArtifactBackend",
    "SyncStateBackend",
    "Validation",
]
