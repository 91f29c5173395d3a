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
        AppendFailed as AppendFailed,
        AppendUnknown as AppendUnknown,
        ArtifactLimitExceeded as ArtifactLimitExceeded,
        ArtifactTooLarge as ArtifactTooLarge,
        ConfigurationError as ConfigurationError,
        FoldlogError as FoldlogError,
        ImportFailed as ImportFailed,
        InvalidId as InvalidId,
        LogCorrupt as LogCorrupt,
        LogRewound as LogRewound,
        LogTimeout as LogTimeout,
        LogUnavailable as LogUnavailable,
        MissingCapability as MissingCapability,
        MissingUpcaster as MissingUpcaster,
        PastErased as PastErased,
        PayloadError as PayloadError,
        PayloadTooLarge as PayloadTooLarge,
        ReadOnlyStore as ReadOnlyStore,
        RedactionFailed as RedactionFailed,
        ServerStartFailed as ServerStartFailed,
        SessionExists as SessionExists,
        SessionHasForks as SessionHasForks,
        SteeringValidationError as SteeringValidationError,
        StoreClosed as StoreClosed,
        UnknownMoment as UnknownMoment,
        UnsupportedServer as UnsupportedServer,
    )
    from foldlog.kind import (
        Content as Content,
        Fold as Fold,
        Key as Key,
        Kind as Kind,
        content_digest as content_digest,
        field_id as field_id,
        fresh_id as fresh_id,
    )
    from foldlog.models import (
        ArtifactRef as ArtifactRef,
        ArtifactRetentionConfig as ArtifactRetentionConfig,
        ArtifactScope as ArtifactScope,
        PlannerEvent as PlannerEvent,
        RemoteBinding as RemoteBinding,
        StateUpdate as StateUpdate,
        SteeringEvent as SteeringEvent,
        SteeringEventType as SteeringEventType,
        StoredEvent as StoredEvent,
        TaskContextSnapshot as TaskContextSnapshot,
        TaskState as TaskState,
        TaskStatus as TaskStatus,
        TaskType as TaskType,
        Trajectory as Trajectory,
        TrajectoryStep as TrajectoryStep,
        UpdateType as UpdateType,
    )
    from foldlog.position import LogPosition as LogPosition
    from foldlog.protocols import (
        ArtifactStore as ArtifactStore,
        StateStore as StateStore,
        SupportsArtifacts as SupportsArtifacts,
        SupportsConversationBindings as SupportsConversationBindings,
        SupportsMemoryState as SupportsMemoryState,
        SupportsPlannerEvents as SupportsPlannerEvents,
        SupportsPlannerState as SupportsPlannerState,
        SupportsSteering as SupportsSteering,
        SupportsTasks as SupportsTasks,
        SupportsTrajectories as SupportsTrajectories,
        missing_capabilities as missing_capabilities,
        require_capabilities as require_capabilities,
    )
    from foldlog.steering import (
        sanitize_steering_event as sanitize_steering_event,
        validate_steering_event as validate_steering_event,
    )
    from foldlog.store import (
        Connecting as Connecting,
        Difference as Difference,
        EmbeddedHealth as EmbeddedHealth,
        Erased as Erased,
        Finding as Finding,
        Health as Health,
        Past as Past,
        RebuildProgress as RebuildProgress,
        RebuildReport as RebuildReport,
        Saving as Saving,
        Side as Side,
        SpoolHealth as SpoolHealth,
        Store as Store,
        StreamHealth as StreamHealth,
        VerifyReport as VerifyReport,
        connect as connect,
        memory_store as memory_store,
    )
    from foldlog.store.primitives import Item as Item
    from foldlog.upcasting import Upcasters as Upcasters, upcaster as upcaster
    from foldlog_projections.folds import every as every, last as last, last_by as last_by

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
        "ReadOnlyStore",
        "RedactionFailed",
        "ServerStartFailed",
        "SessionExists",
        "SessionHasForks",
        "SteeringValidationError",
        "StoreClosed",
        "UnknownMoment",
        "UnsupportedServer",
    ],
    "foldlog.kind": ["Content", "Fold", "Key", "Kind", "content_digest", "field_id", "fresh_id"],
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
    "foldlog.store.primitives": ["Item"],
    "foldlog.upcasting": ["Upcasters", "upcaster"],
    "foldlog_projections.folds": ["every", "last", "last_by"],
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
