"""foldlog: the place where AI agents keep their state.

One append-only log on NATS JetStream, folded in process into the views that reads answer from.

    import foldlog

    async with foldlog.connect() as store:
        await store.save_event(event)
        history = await store.load_history(trace_id)

Names are loaded when they are first used, so that importing foldlog costs nothing a program does
not need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foldlog.envelope import Position as Position
    from foldlog.errors import (
        AppendConflict as AppendConflict,
    )
    from foldlog.errors import (
        AppendFailed as AppendFailed,
    )
    from foldlog.errors import (
        AppendUnknown as AppendUnknown,
    )
    from foldlog.errors import (
        ArtifactLimitExceeded as ArtifactLimitExceeded,
    )
    from foldlog.errors import (
        ArtifactTooLarge as ArtifactTooLarge,
    )
    from foldlog.errors import (
        ConfigurationError as ConfigurationError,
    )
    from foldlog.errors import (
        FoldlogError as FoldlogError,
    )
    from foldlog.errors import (
        ImportFailed as ImportFailed,
    )
    from foldlog.errors import (
        InvalidId as InvalidId,
    )
    from foldlog.errors import (
        LogCorrupt as LogCorrupt,
    )
    from foldlog.errors import (
        LogRewound as LogRewound,
    )
    from foldlog.errors import (
        LogTimeout as LogTimeout,
    )
    from foldlog.errors import (
        LogUnavailable as LogUnavailable,
    )
    from foldlog.errors import (
        MissingCapability as MissingCapability,
    )
    from foldlog.errors import (
        MissingUpcaster as MissingUpcaster,
    )
    from foldlog.errors import (
        PastErased as PastErased,
    )
    from foldlog.errors import (
        PayloadError as PayloadError,
    )
    from foldlog.errors import (
        PayloadTooLarge as PayloadTooLarge,
    )
    from foldlog.errors import (
        ReadOnlyStore as ReadOnlyStore,
    )
    from foldlog.errors import (
        RedactionFailed as RedactionFailed,
    )
    from foldlog.errors import (
        ServerStartFailed as ServerStartFailed,
    )
    from foldlog.errors import (
        SessionExists as SessionExists,
    )
    from foldlog.errors import (
        SessionHasForks as SessionHasForks,
    )
    from foldlog.errors import (
        SteeringValidationError as SteeringValidationError,
    )
    from foldlog.errors import (
        StoreClosed as StoreClosed,
    )
    from foldlog.errors import (
        UnknownMoment as UnknownMoment,
    )
    from foldlog.errors import (
        UnsupportedServer as UnsupportedServer,
    )
    from foldlog.models import (
        ArtifactRef as ArtifactRef,
    )
    from foldlog.models import (
        ArtifactRetentionConfig as ArtifactRetentionConfig,
    )
    from foldlog.models import (
        ArtifactScope as ArtifactScope,
    )
    from foldlog.models import (
        PlannerEvent as PlannerEvent,
    )
    from foldlog.models import (
        RemoteBinding as RemoteBinding,
    )
    from foldlog.models import (
        StateUpdate as StateUpdate,
    )
    from foldlog.models import (
        SteeringEvent as SteeringEvent,
    )
    from foldlog.models import (
        SteeringEventType as SteeringEventType,
    )
    from foldlog.models import (
        StoredEvent as StoredEvent,
    )
    from foldlog.models import (
        TaskContextSnapshot as TaskContextSnapshot,
    )
    from foldlog.models import (
        TaskState as TaskState,
    )
    from foldlog.models import (
        TaskStatus as TaskStatus,
    )
    from foldlog.models import (
        TaskType as TaskType,
    )
    from foldlog.models import (
        Trajectory as Trajectory,
    )
    from foldlog.models import (
        TrajectoryStep as TrajectoryStep,
    )
    from foldlog.models import (
        UpdateType as UpdateType,
    )
    from foldlog.position import LogPosition as LogPosition
    from foldlog.protocols import (
        ArtifactStore as ArtifactStore,
    )
    from foldlog.protocols import (
        StateStore as StateStore,
    )
    from foldlog.protocols import (
        SupportsArtifacts as SupportsArtifacts,
    )
    from foldlog.protocols import (
        SupportsConversationBindings as SupportsConversationBindings,
    )
    from foldlog.protocols import (
        SupportsMemoryState as SupportsMemoryState,
    )
    from foldlog.protocols import (
        SupportsPlannerEvents as SupportsPlannerEvents,
    )
    from foldlog.protocols import (
        SupportsPlannerState as SupportsPlannerState,
    )
    from foldlog.protocols import (
        SupportsSteering as SupportsSteering,
    )
    from foldlog.protocols import (
        SupportsTasks as SupportsTasks,
    )
    from foldlog.protocols import (
        SupportsTrajectories as SupportsTrajectories,
    )
    from foldlog.protocols import (
        missing_capabilities as missing_capabilities,
    )
    from foldlog.protocols import (
        require_capabilities as require_capabilities,
    )
    from foldlog.steering import sanitize_steering_event as sanitize_steering_event
    from foldlog.steering import validate_steering_event as validate_steering_event
    from foldlog.store import (
        Connecting as Connecting,
    )
    from foldlog.store import (
        Difference as Difference,
    )
    from foldlog.store import (
        EmbeddedHealth as EmbeddedHealth,
    )
    from foldlog.store import (
        Erased as Erased,
    )
    from foldlog.store import (
        Finding as Finding,
    )
    from foldlog.store import (
        Health as Health,
    )
    from foldlog.store import (
        Past as Past,
    )
    from foldlog.store import (
        RebuildProgress as RebuildProgress,
    )
    from foldlog.store import (
        RebuildReport as RebuildReport,
    )
    from foldlog.store import (
        Saving as Saving,
    )
    from foldlog.store import (
        Side as Side,
    )
    from foldlog.store import (
        SpoolHealth as SpoolHealth,
    )
    from foldlog.store import (
        Store as Store,
    )
    from foldlog.store import (
        StreamHealth as StreamHealth,
    )
    from foldlog.store import (
        VerifyReport as VerifyReport,
    )
    from foldlog.store import (
        connect as connect,
    )
    from foldlog.store import (
        memory_store as memory_store,
    )
    from foldlog.upcasting import (
        Upcasters as Upcasters,
    )
    from foldlog.upcasting import (
        upcaster as upcaster,
    )

__version__ = "0.1.0"

_HOMES = {
    "foldlog.envelope": ["Position"],
    "foldlog.errors": [
        "AppendConflict",
        "AppendFailed",
        "AppendUnknown",
        "ArtifactLimitExceeded",
        "ArtifactTooLarge",
        "ConfigurationError",
        "FoldlogError",
        "ImportFailed",
        "InvalidId",
        "LogCorrupt",
        "LogRewound",
        "LogTimeout",
        "LogUnavailable",
        "MissingCapability",
        "MissingUpcaster",
        "PastErased",
        "PayloadError",
        "PayloadTooLarge",
        "RedactionFailed",
        "ReadOnlyStore",
        "ServerStartFailed",
        "SessionExists",
        "SessionHasForks",
        "SteeringValidationError",
        "StoreClosed",
        "UnknownMoment",
        "UnsupportedServer",
    ],
    "foldlog.models": [
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
    ],
    "foldlog.position": ["LogPosition"],
    "foldlog.protocols": [
        "ArtifactStore",
        "StateStore",
        "SupportsArtifacts",
        "SupportsConversationBindings",
        "SupportsMemoryState",
        "SupportsPlannerEvents",
        "SupportsPlannerState",
        "SupportsSteering",
        "SupportsTasks",
        "SupportsTrajectories",
        "missing_capabilities",
        "require_capabilities",
    ],
    "foldlog.steering": ["sanitize_steering_event", "validate_steering_event"],
    "foldlog.store": [
        "Connecting",
        "Difference",
        "EmbeddedHealth",
        "Erased",
        "Finding",
        "Health",
        "Past",
        "RebuildProgress",
        "RebuildReport",
        "Saving",
        "Side",
        "SpoolHealth",
        "Store",
        "StreamHealth",
        "VerifyReport",
        "connect",
        "memory_store",
    ],
    "foldlog.upcasting": ["Upcasters", "upcaster"],
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'foldlog' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return [*(name for name in globals() if name.startswith("__")), *__all__]
