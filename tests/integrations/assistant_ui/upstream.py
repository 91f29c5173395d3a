"""assistant-stream's own tests of a store of resumable streams, and of what reads and writes it."""

from typing import Final

from tests.integrations.upstream import Suite

SUITES: Final = (
    Suite(
        "assistant-stream",
        "python/assistant-stream",
        (
            "tests/test_resumable_in_memory.py",
            "tests/test_resumable_context.py",
            "tests/test_resumable_response.py",
        ),
        "upstream_streams",
        ("-c", "pyproject.toml"),
    ),
)
