"""AutoGen's own tests of teams that select speakers, on a runtime of their own."""

from typing import Final

from tests.integrations.upstream import Suite

SUITES: Final = (
    Suite(
        "autogen-agentchat",
        "python/packages/autogen-agentchat",
        (
            "tests/test_group_chat.py",
            "tests/test_group_chat_nested.py",
            "tests/test_group_chat_pause_resume.py",
            "tests/test_society_of_mind_agent.py",
            "tests/test_task_runner_tool.py",
        ),
        "upstream_teams",
        arguments=("-o", "asyncio_mode=auto"),
    ),
)
