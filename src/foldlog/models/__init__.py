"""The words of the domain: what callers save and what they get back. No I/O.

Shapes follow the StateStore specification 2.11, section "Data Types". Every object handed out by
a store is the caller's own: changing it changes nothing that is stored.
"""

from foldlog.models.artifacts import ArtifactRef, ArtifactRetentionConfig, ArtifactScope
from foldlog.models.events import RemoteBinding, StoredEvent
from foldlog.models.planner import PlannerEvent, Trajectory, TrajectoryStep
from foldlog.models.steering import SteeringEvent, SteeringEventType
from foldlog.models.tasks import (
    StateUpdate,
    TaskContextSnapshot,
    TaskState,
    TaskStatus,
    TaskType,
    UpdateType,
)
from foldlog.models.waiting import Answered, Waiting, WaitingKind

__all__ = [
    "Answered",
    "ArtifactRef",
    "ArtifactRetentionConfig",
    "ArtifactScope",
    "PlannerEvent",
    "RemoteBinding",
    "StateUpdate",
    "SteeringEvent",
    "SteeringEventType",
    "StoredEvent",
    "TaskContextSnapshot",
    "TaskState",
    "TaskStatus",
    "TaskType",
    "Trajectory",
    "TrajectoryStep",
    "UpdateType",
    "Waiting",
    "WaitingKind",
]
