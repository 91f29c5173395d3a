"""The scripted agent of the matrix, in the Claude Agent SDK."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    create_sdk_mcp_server,
    query,
    tool,
)

import foldlog
from foldlog.integrations.claude_agent import query_in
from tests.integrations.durable.script import Script

ACTING = Path(__file__).with_name("acting_claude.py")


def make(script: Script) -> Any:
    """The durable function that does the script."""
    return durable(tools_of(script), options_of(script))


def make_repeating(script: Script) -> Any:
    """The same, with tools that say wrongly that they may be done twice."""
    repeatable: Any = {"search": {"repeatable": True}, "book": {"repeatable": True}}
    return durable(tools_of(script), options_of(script), tools=repeatable)


def make_bare(script: Script) -> Any:
    """The same, without durability: what the matrix has to find out."""

    @foldlog.durable(name="agent", attempts=10)
    async def bare(run: foldlog.Run, prompt: str) -> str:
        options = options_of(script)
        options.mcp_servers = {"travel": create_sdk_mcp_server("travel", tools=tools_of(script))}

        async def prompts() -> Any:
            yield {"type": "user", "message": {"role": "user", "content": prompt}}

        said = ""
        async for message in query(prompt=prompts(), options=options):
            said = message.result if isinstance(message, ResultMessage) else said
        return said

    return bare


def durable(made: Any, options: Any, **given: Any) -> Any:
    """The durable function of tools: "agent", which takes a prompt."""

    @foldlog.durable(name="agent", attempts=10)
    async def function(run: foldlog.Run, prompt: str) -> str:
        servers, said = {"travel": made}, ""
        async for message in query_in(
            run, prompt=prompt, options=options, servers=servers, **given
        ):
            said = message.result if isinstance(message, ResultMessage) else said
        return said

    return function


def options_of(script: Script) -> ClaudeAgentOptions:
    """A Claude Code that does the script."""
    env = {"SCRIPT_FILE": str(script.file), "SCRIPT_DIES_AT": script.dies_at}
    return ClaudeAgentOptions(cli_path=ACTING, env=env)


def tools_of(script: Script) -> list[Any]:
    """The tools of the script."""

    def of(name: str) -> Any:
        @tool(name, name, {"city": str})
        async def call(arguments: Any) -> dict[str, Any]:
            text = script.tool(name, arguments["city"])
            return {"content": [{"type": "text", "text": text}]}

        return call

    return [of("search"), of("book")]
