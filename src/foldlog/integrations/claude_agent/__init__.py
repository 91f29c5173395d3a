"""The Claude Agent SDK on foldlog: its transcripts, and tools that have their effect once in a run.

    from foldlog.integrations.claude_agent import FoldlogSessionStore, query_in

The contracts are `claude_agent_sdk.SessionStore`, 0.1.66 and later, `query` and `SdkMcpTool`:
https://github.com/anthropics/claude-agent-sdk-python/blob/main/src/claude_agent_sdk/types.py
"""

from foldlog.integrations.required import not_installed as _not_installed

try:
    import claude_agent_sdk as _claude_agent_sdk  # noqa: F401
except ModuleNotFoundError as _error:
    raise _not_installed("claude-agent", _error) from _error

from foldlog.integrations.calls import StepOptions
from foldlog.integrations.claude_agent.durability import query_in
from foldlog.integrations.claude_agent.sessions import FoldlogSessionStore, session_of

__all__ = ["FoldlogSessionStore", "StepOptions", "query_in", "session_of"]
