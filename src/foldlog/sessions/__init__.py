"""Sessions: `async with store.session(session_id) as session`.

A context with versions, patches that a person approves, tasks from spawning to cancellation,
groups, steering and short-term memory. All of it is folded from the log, so it survives its
process, and every worker sees the same. `docs/guides/sessions.md` shows how.
"""

from foldlog.sessions.context import context_hash
from foldlog.sessions.errors import (
    GroupSealed,
    IllegalTransition,
    MemoryBudgetExceeded,
    MergeRefused,
)
from foldlog.sessions.manager import SessionManager
from foldlog.sessions.memory.config import MemoryBudget, MemoryIsolation, ShortTermMemoryConfig
from foldlog.sessions.memory.memory import ShortTermMemory
from foldlog.sessions.memory.state import (
    ConversationTurn,
    MemoryHealth,
    MemoryState,
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
from foldlog.sessions.session import Session, StreamingSession
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
    "MemoryState",
    "MergeRefused",
    "MergeStrategy",
    "NoOpTaskTelemetrySink",
    "OpenTelemetryTaskTelemetrySink",
    "PendingContextPatch",
    "Session",
    "SessionContext",
    "SessionManager",
    "SessionState",
    "ShortTermMemory",
    "ShortTermMemoryConfig",
    "StreamingSession",
    "Summarizer",
    "TaskGroup",
    "TaskTelemetryEvent",
    "TaskTelemetrySink",
    "TrajectoryDigest",
    "context_hash",
]
