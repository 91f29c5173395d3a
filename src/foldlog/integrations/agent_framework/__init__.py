"""Microsoft Agent Framework on foldlog: histories, checkpoints of workflows, durable agents.

    from foldlog.integrations.agent_framework import FoldlogHistoryProvider, agent_in

AG-UI's snapshots are in `foldlog.integrations.agent_framework.snapshots`.

The contracts are `HistoryProvider`, `CheckpointStorage` and the middleware of agent_framework:
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
from foldlog.integrations.agent_framework.durability import agent_in
from foldlog.integrations.agent_framework.history import FoldlogHistoryProvider
from foldlog.integrations.calls import StepOptions

__all__ = [
    "CheckpointNotFound",
    "CheckpointUnreadable",
    "FoldlogCheckpointStorage",
    "FoldlogHistoryProvider",
    "StepOptions",
    "TypeNotAllowed",
    "agent_in",
]
