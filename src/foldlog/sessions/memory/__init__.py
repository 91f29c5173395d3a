"""Short-term memory: recent turns of a conversation, and a summary of those before them."""

from foldlog.sessions.memory.budget import MemoryBudget
from foldlog.sessions.memory.config import MemoryStrategy, ShortTermMemoryConfig
from foldlog.sessions.memory.health import EDGES, MemoryHealth
from foldlog.sessions.memory.isolation import MemoryIsolation
from foldlog.sessions.memory.memory import OnHealth, ShortTermMemory
from foldlog.sessions.memory.state import (
    ConversationTurn,
    MemoryState,
    Summarizer,
    TrajectoryDigest,
)

__all__ = [
    "EDGES",
    "ConversationTurn",
    "MemoryBudget",
    "MemoryHealth",
    "MemoryIsolation",
    "MemoryState",
    "MemoryStrategy",
    "OnHealth",
    "ShortTermMemory",
    "ShortTermMemoryConfig",
    "Summarizer",
    "TrajectoryDigest",
]
