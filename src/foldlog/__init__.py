"""The state of AI agents in one append-only log on NATS JetStream.

Every save appends to the log. Your process rebuilds state from the log and answers reads from
memory. Kill it anywhere: the next process goes on where the log ends.

    import foldlog

    async with foldlog.connect() as store:      # a server in ./.foldlog; or connect("nats://...")
        await store.save_update(update)
        updates = await store.list_updates("trip")

Where to go on, each with `help(...)`:

    foldlog.connect, foldlog.memory_store     open a store
    foldlog.Store                             every method of a store
    store.session(id)                         sessions: tasks, steering, approval, context
    store.run(name)                           runs that survive a crash and obey orders
    foldlog.durable, foldlog.Worker           functions that workers do: store.start(function)
    store.agents, store.scoped                state of agents; keys in scopes, with search
    foldlog.Kind, foldlog.kinds               kinds of records that you declare; the built-in ones
    foldlog.StateUpdate, TaskState, ...       what is saved: `dir(foldlog)` lists all names
    foldlog.FoldlogError                      the base of every error
    foldlog.blocking                          the same without an event loop
    foldlog.integrations                      LangGraph, OpenAI Agents, Pydantic AI and others
    foldlog.testing                           a contract kit for a store of yours

Names are loaded when they are first used, so that importing foldlog is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from foldlog.errors import (
    AlreadyAnswered as AlreadyAnswered,
    AppendConflict as AppendConflict,
    AppendFailed as AppendFailed,
    AppendUnknown as AppendUnknown,
    ArtifactLimitExceeded as ArtifactLimitExceeded,
    ArtifactTooLarge as ArtifactTooLarge,
    BundleRefused as BundleRefused,
    Busy as Busy,
    ConfigurationError as ConfigurationError,
    FoldlogError as FoldlogError,
    IdTaken as IdTaken,
    ImportFailed as ImportFailed,
    InvalidId as InvalidId,
    LogCorrupt as LogCorrupt,
    LogRewound as LogRewound,
    LogTimeout as LogTimeout,
    LogUnavailable as LogUnavailable,
    MissingCapability as MissingCapability,
    MissingUpcaster as MissingUpcaster,
    Misuse as Misuse,
    NotFound as NotFound,
    NotWaiting as NotWaiting,
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
    VersionConflict as VersionConflict,
    WaitingExpired as WaitingExpired,
)

if TYPE_CHECKING:
    from foldlog import kinds as kinds
    from foldlog.envelope import Position as Position
    from foldlog.kind import (
        Blob as Blob,
        Content as Content,
        Fold as Fold,
        Incidental as Incidental,
        Key as Key,
        Kind as Kind,
        Listing as Listing,
        content_digest as content_digest,
        content_rule as content_rule,
        field_id as field_id,
        fresh_id as fresh_id,
    )
    from foldlog.log.archive import Archived as Archived, ArchiveLimits as ArchiveLimits
    from foldlog.models import (
        Answered as Answered,
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
        Waiting as Waiting,
        WaitingKind as WaitingKind,
    )
    from foldlog.opening import (
        Connecting as Connecting,
        Past as Past,
        Store as Store,
        connect as connect,
        memory_store as memory_store,
    )
    from foldlog.position import LogPosition as LogPosition
    from foldlog.projectors import (
        Projecting as Projecting,
        ProjectorFailed as ProjectorFailed,
        projector as projector,
        table as table,
    )
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
    from foldlog.runs import (
        CodeChanged as CodeChanged,
        Durable as Durable,
        Handle as Handle,
        QuestionExpired as QuestionExpired,
        ResultMissing as ResultMissing,
        Run as Run,
        RunBusy as RunBusy,
        RunCancelled as RunCancelled,
        RunEnded as RunEnded,
        RunFailed as RunFailed,
        RunHandedOn as RunHandedOn,
        RunPaused as RunPaused,
        RunTakenOver as RunTakenOver,
        StepChanged as StepChanged,
        StepUnknown as StepUnknown,
        UnreadableResult as UnreadableResult,
        Worker as Worker,
        WorkerLost as WorkerLost,
        durable as durable,
    )
    from foldlog.steering import (
        sanitize_steering_event as sanitize_steering_event,
        validate_steering_event as validate_steering_event,
    )
    from foldlog.store import (
        ArchiveHealth as ArchiveHealth,
        EmbeddedHealth as EmbeddedHealth,
        Erased as Erased,
        Finding as Finding,
        Health as Health,
        LogRecord as LogRecord,
        RebuildProgress as RebuildProgress,
        RebuildReport as RebuildReport,
        Saving as Saving,
        Side as Side,
        SpoolHealth as SpoolHealth,
        StreamHealth as StreamHealth,
        VerifyReport as VerifyReport,
        ViewDifference as ViewDifference,
    )
    from foldlog.store.primitives import Item as Item
    from foldlog.store.subscribing import LogItem as LogItem
    from foldlog.upcasting import Upcasters as Upcasters, upcaster as upcaster
    from foldlog.words import Line as Line, Rows as Rows, Shown as Shown
    from foldlog_projections.folds import every as every, last as last, last_by as last_by
    from foldlog_projections.messages import (
        Conversation as Conversation,
        Conversations as Conversations,
        Message as Message,
        MessagesRemoved as MessagesRemoved,
    )

__version__ = "0.1.0"

_HOMES = {
    "foldlog.envelope": "Position",
    "foldlog.log.archive": "Archived ArchiveLimits",
    "foldlog.kind": """
        Blob Content Fold Incidental Key Kind Listing content_digest content_rule field_id fresh_id
    """,
    "foldlog.models": """
        Answered ArtifactRef ArtifactRetentionConfig ArtifactScope PlannerEvent RemoteBinding
        StateUpdate SteeringEvent SteeringEventType StoredEvent TaskContextSnapshot TaskState
        TaskStatus TaskType Trajectory TrajectoryStep UpdateType Waiting WaitingKind
    """,
    "foldlog.opening": "Connecting Past Store connect memory_store",
    "foldlog.position": "LogPosition",
    "foldlog.projectors": "Projecting ProjectorFailed projector table",
    "foldlog.protocols": """
        ArtifactStore StateStore SupportsArtifacts SupportsConversationBindings
        SupportsMemoryState SupportsPlannerEvents SupportsPlannerState SupportsSteering
        SupportsTasks SupportsTrajectories missing_capabilities require_capabilities
    """,
    "foldlog.runs": """
        CodeChanged Durable Handle QuestionExpired ResultMissing Run RunBusy RunCancelled RunEnded
        RunFailed RunHandedOn RunPaused RunTakenOver StepChanged StepUnknown UnreadableResult
        Worker WorkerLost durable
    """,
    "foldlog.steering": "sanitize_steering_event validate_steering_event",
    "foldlog.store": """
        ArchiveHealth EmbeddedHealth Erased Finding Health LogRecord RebuildProgress
        RebuildReport Saving Side SpoolHealth StreamHealth VerifyReport ViewDifference
    """,
    "foldlog.store.primitives": "Item",
    "foldlog.store.subscribing": "LogItem",
    "foldlog.upcasting": "Upcasters upcaster",
    "foldlog.words": "Line Rows Shown",
    "foldlog_projections.folds": "every last last_by",
    "foldlog_projections.messages": "Conversation Conversations Message MessagesRemoved",
}
"""Where each name is loaded from when it is first used; the imports above say the same to tools."""

_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

_ERRORS = [
    name for name, it in globals().items() if getattr(it, "__module__", "") == "foldlog.errors"
]

_PUBLIC = sorted([*_ERRORS, *_HOME_OF])

# What `help(foldlog)` shows whole, and a star import brings. `dir(foldlog)` has every public name.
__all__ = ["FoldlogError", "Kind", "connect", "memory_store"]

if not TYPE_CHECKING:  # tools know the names from the imports above, and tell of any other

    def __getattr__(name: str) -> Any:
        if name == "kinds":
            return import_module("foldlog.kinds")
        if name not in _HOME_OF:
            raise AttributeError(f"module 'foldlog' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
        return value


def __dir__() -> list[str]:
    return [*(name for name in globals() if name.startswith("__")), *_PUBLIC]
