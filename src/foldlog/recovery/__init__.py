"""Executions that can be stopped anywhere, resumed from any address, validated and compared.

`store.recovery` is the StateBackend of an open store, `store.recovery.artifacts` its
ArtifactBackend.
"""

from foldlog.differences import ABSENT
from foldlog.recovery.artifacts import ArtifactBackend, Garbage
from foldlog.recovery.backend import StateBackend
from foldlog.recovery.errors import (
    ExecutionPaused,
    ExecutionTakenOver,
    IncompatibleState,
    ResultMissing,
    StepUnknown,
    UnreadableResult,
)
from foldlog.recovery.execution import Execution
from foldlog.recovery.migrations import Migrations
from foldlog.recovery.models import (
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
from foldlog.recovery.validation import Mismatch, Validation

__all__ = [
    "ABSENT",
    "SCHEMA_VERSION",
    "ArtifactBackend",
    "AutoCheckpointConfig",
    "EventBus",
    "EventType",
    "Execution",
    "ExecutionEvent",
    "ExecutionPaused",
    "ExecutionStatus",
    "ExecutionTakenOver",
    "Garbage",
    "IncompatibleState",
    "Migrations",
    "Mismatch",
    "ReplayMode",
    "ResultMissing",
    "StateBackend",
    "StateDiff",
    "StateMetadata",
    "StateSnapshot",
    "StateStatus",
    "StepUnknown",
    "UnreadableResult",
    "Validation",
]
