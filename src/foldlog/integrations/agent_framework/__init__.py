"""Microsoft Agent Framework on foldlog: the history of agents, the checkpoints of workflows.

    from foldlog.integrations.agent_framework import FoldlogHistoryProvider

The contracts are `HistoryProvider` and `CheckpointStorage` of agent_framework:
https://github.com/microsoft/agent-framework/tree/main/python/packages/core/agent_framework
"""

from foldlog.integrations.required import not_installed

try:
    import agent_framework as agent_framework
except ModuleNotFoundError as _error:
    raise not_installed("agent-framework", _error) from _error

from foldlog.integrations.agent_framework.checkpoints import (
    CheckpointNotFound,
    CheckpointUnreadable,
    FoldlogCheckpointStorage,
    TypeNotAllowed,
)
from foldlog.integrations.agent_framework.history import FoldlogHistoryProvider

__all__ = [
    "CheckpointNotFound",
    "CheckpointUnreadable",
    "FoldlogCheckpointStorage",
    "FoldlogHistoryProvider",
    "TypeNotAllowed",
]
