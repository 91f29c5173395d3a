"""LangGraph 1 on foldlog: the checkpointer of its graphs, and their long-term memory.

from foldlog.integrations.langgraph import FoldlogSaver, FoldlogStore
"""

from foldlog.integrations.access import WouldBlock
from foldlog.integrations.langgraph.fencing import CheckpointGone, ThreadHeld
from foldlog.integrations.langgraph.saver import FoldlogSaver
from foldlog.integrations.langgraph.store import FoldlogStore

__all__ = ["CheckpointGone", "FoldlogSaver", "FoldlogStore", "ThreadHeld", "WouldBlock"]
