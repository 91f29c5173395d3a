"""AutoGen 0.7 on foldlog: durable agents, and checkpoints of a runtime or a team after every turn.

from foldlog.integrations.autogen import RuntimeCheckpoints, TeamCheckpoints, agent_in, model_in
"""

from foldlog.integrations.required import not_installed as _not_installed

try:
    import autogen_agentchat as _agentchat  # noqa: F401
    import autogen_core as _core  # noqa: F401
except ModuleNotFoundError as _error:
    raise _not_installed("autogen", _error) from _error

from foldlog.integrations.autogen.checkpoints import Checkpoint
from foldlog.integrations.autogen.durability import agent_in, model_in
from foldlog.integrations.autogen.runtime import RuntimeCheckpoints
from foldlog.integrations.autogen.team import TeamCheckpoints
from foldlog.integrations.calls import StepOptions

__all__ = [
    "Checkpoint",
    "RuntimeCheckpoints",
    "StepOptions",
    "TeamCheckpoints",
    "agent_in",
    "model_in",
]
