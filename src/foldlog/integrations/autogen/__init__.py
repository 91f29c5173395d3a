"""AutoGen 0.7 on foldlog: checkpoints of a runtime or a team after every turn, while it runs.

from foldlog.integrations.autogen import RuntimeCheckpoints, TeamCheckpoints
"""

from foldlog.integrations.autogen.checkpoints import Checkpoint
from foldlog.integrations.autogen.runtime import RuntimeCheckpoints
from foldlog.integrations.autogen.team import TeamCheckpoints

__all__ = ["Checkpoint", "RuntimeCheckpoints", "TeamCheckpoints"]
