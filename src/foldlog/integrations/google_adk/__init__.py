"""Google's Agent Development Kit (ADK) 2 on foldlog: sessions, artifacts, memory, durable agents.

from foldlog.integrations.google_adk import (
    FoldlogArtifactService,
    FoldlogMemoryService,
    FoldlogSessionService,
    agent_in,
    sessions_in,
)
"""

from foldlog.integrations.required import not_installed as _not_installed

try:
    import google.adk as _adk  # noqa: F401
except ModuleNotFoundError as _error:
    raise _not_installed("google-adk", _error) from _error

from foldlog.integrations.google_adk.artifacts import FoldlogArtifactService
from foldlog.integrations.google_adk.durability import agent_in
from foldlog.integrations.google_adk.memory import FoldlogMemoryService
from foldlog.integrations.google_adk.run_sessions import sessions_in
from foldlog.integrations.google_adk.sessions import FoldlogSessionService, session_id_of

__all__ = [
    "FoldlogArtifactService",
    "FoldlogMemoryService",
    "FoldlogSessionService",
    "agent_in",
    "session_id_of",
    "sessions_in",
]
