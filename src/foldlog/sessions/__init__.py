"""Sessions: what happens around a store, kept by it. `await store.session(session_id)` opens one.

Context with versions, patches that a person approves, tasks from spawning to cancellation, groups,
steering as it comes, short-term memory: all of it folded from the log, so that it survives its
process and every worker sees the same. `docs/sessions.md` shows how.
"""

from foldlog.sessions.context import context_hash
from foldlog.sessions.errors import (
    GroupSealed,
    IllegalTransition,
    MemoryBudgetExceeded,
    MemoryKeyMissing,
    MergeRefused,
    UnknownGroup,
    UnknownTask,
)
from foldlog.sessions.memory import (
    ConversationTurn,
    MemoryBudget,
    MemoryHealth,
    MemoryIsolation,
    MemoryState,
    ShortTermMemory,
    ShortTermMemoryConfig,
    Summarizer,
    TrajectoryDigest,
)
from foldlog.sessions.models import (
    ContextPatch,
    MergeStrategy,
    PendingContextPatch,
    SessionContext,
    TaskGroup,
)
from foldlog.sessions.session import Session
from foldlog.sessions.state import SessionState
from foldlog.sessions.telemetry import (
    LoggingTaskTelemetrySink,
    NoOpTaskTelemetrySink,
    OpenTelemetryTaskTelemetrySink,
    TaskTelemetryEvent,
    TaskTelemetrySink,
)

__all__ = [
    "ContextPatch",
    "ConversationTurn",
    "GroupSealed",
    "IllegalTransition",
    "LoggingTaskTelemetrySink",
    "MemoryBudget",
    "MemoryBudgetExceeded",
    "MemoryHealth",
    "MemoryIsolation",
    "MemoryKeyMissing",
    "MemoryState",
    "MergeRefused",
    "MergeStrategy",
    "NoOpTaskTelemetrySink",
    "OpenTelemetryTaskTelemetrySink",
    "PendingContextPatch",
    "Session",
    "SessionContext",
    "SessionState",
    "ShortTermMemory",
    "ShortTermMemoryConfig",
    "Summarizer",
    "TaskGroup",
    "TaskTelemetryEvent",
    "TaskTelemetrySink",
    "TrajectoryDigest",
    "UnknownGroup",
    "UnknownTask",
    "context_hash",
]
