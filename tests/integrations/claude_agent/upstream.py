"""The Claude Agent SDK's own tests of session stores. Those on trio are left out."""

from typing import Final

from tests.integrations.upstream import Suite

SUITES: Final = (
    Suite(
        "claude-agent-sdk",
        ".",
        (
            "tests/test_session_store_conformance.py",
            "tests/test_session_helpers_store.py",
            "tests/test_session_import.py",
            "tests/test_session_resume.py",
            "tests/test_session_summary.py",
            "tests/test_transcript_mirror.py",
        ),
        "upstream_store",
        arguments=("-k", "not trio"),
    ),
)
