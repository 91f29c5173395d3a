"""AutoGen 0.7 on foldlog: checkpoints of a runtime or a team after every turn, while it runs.

from foldlog.integrations.autogen import RuntimeCheckpoints, TeamCheckpoints
"""

from foldlog.integrations.required import not_installed as _not_installed

try:
    import autogen_agentchat as _agentchat  # noqa: F401
    import autogen_core as _core  # noqa: F401
except ModuleNotFoundError as _error:
    raise _not_installed("autogen", _error) from _error

from foldlog.integrations.autogen.checkpoints import Checkpoint
from foldlog.integrations.autogen.runtime import RuntimeCheckpoints
from foldlog.integrations.autogen.team import TeamCheckpoints

__all__ = ["Checkpoint", "RuntimeCheckpoints", "TeamCheckpoints"]
