"""openai-agents' own tests of sessions, their limit, compaction and context."""

from typing import Final

from tests.integrations.upstream import Suite

SUITES: Final = (
    Suite(
        "openai-agents",
        ".",
        (
            "tests/memory/test_session.py",
            "tests/memory/test_session_limit.py",
            "tests/memory/test_openai_responses_compaction_session.py",
            "tests/memory/test_session_context_wrapper.py",
        ),
        "upstream_session",
        source="src",
    ),
)
