"""An agent of the Claude Agent SDK that goes on, in whichever process it is run next.

    python examples/claude_agent_agent.py "To Oslo"
    python examples/claude_agent_agent.py "By train"

What it was told is in ./data, and nowhere else. A script stands in for Claude Code: leave out
`cli_path` for the real one, whose sessions are stored the same way.
"""

import asyncio
import sys
from pathlib import Path

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    list_sessions_from_store,
    query,
)

from foldlog.integrations.claude_agent import FoldlogSessionStore


async def main(prompt: str) -> None:
    """Go on with the latest session of this directory; begin one if there is none."""
    async with FoldlogSessionStore.from_conn_string("./data") as sessions:
        options = ClaudeAgentOptions(
            session_store=sessions,
            continue_conversation=True,
            cli_path=Path(__file__).with_name("scripted_claude.py"),
        )
        async for message in query(prompt=prompt, options=options):
            if isinstance(message, ResultMessage):
                print(message.result)
        for session in await list_sessions_from_store(sessions):
            print(f"a session that began with {session.first_prompt!r}")


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "Hello"))
