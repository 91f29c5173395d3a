"""State of agents that commits by turns, is shared by tokens, and can be exported and watched.

`store.agents` is the state manager of an open store, `store.agents.repository` makes others.
A *scope* is the owner of state: an agent id such as "writer/1", or an object with `type` and `key`.
"""

from foldlog.agents.errors import IncompatibleAgentState, ShareRefused, TurnEnded
from foldlog.agents.manager import AgentStates
from foldlog.agents.models import (
    RUNTIME_SCOPE,
    AgentAddress,
    AgentStateEntry,
    KeyChange,
    ShareToken,
    StateChange,
    StateVersion,
)
from foldlog.agents.opening import InMemoryStateRepository, LogStateRepository, StoreAgents
from foldlog.agents.protocols import (
    ExportableStateManager,
    StateContext,
    StateManager,
    StateRepository,
)
from foldlog.agents.turns import TurnStateContext, TypedStateContext
from foldlog.differences import Difference

__all__ = [
    "RUNTIME_SCOPE",
    "AgentAddress",
    "AgentStateEntry",
    "AgentStates",
    "Difference",
    "ExportableStateManager",
    "InMemoryStateRepository",
    "IncompatibleAgentState",
    "KeyChange",
    "LogStateRepository",
    "ShareRefused",
    "ShareToken",
    "StateChange",
    "StateContext",
    "StateManager",
    "StateRepository",
    "StateVersion",
    "StoreAgents",
    "TurnEnded",
    "TurnStateContext",
    "TypedStateContext",
]
