"""The Claude Agent SDK over fresh data on an embedded server, and in other processes.

Without claude-agent-sdk every module here is skipped, before it is imported.
"""

from __future__ import annotations

from tests.integrations.embedded import start_worker, store  # noqa: F401
from tests.integrations.missing import make_has_it, only_with

pytest_pycollect_makemodule = only_with("claude_agent_sdk", make_has_it("claude-agent-sdk"))
