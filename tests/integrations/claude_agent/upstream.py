"""Runs the Claude Agent SDK's own tests of session stores on foldlog.

    python -m tests.integrations.claude_agent.upstream CHECKOUT

CHECKOUT is a clone of anthropics/claude-agent-sdk-python, or its unpacked source distribution, at
the version that is installed. What follows it goes to pytest. Tests on trio are left out: a store
runs on asyncio.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.integrations.upstream import run_pytest

PLUGIN: Final = Path(__file__).with_name("upstream_store.py")

FILES: Final = (
    "tests/test_session_store_conformance.py",
    "tests/test_session_helpers_store.py",
    "tests/test_session_import.py",
    "tests/test_session_resume.py",
    "tests/test_session_summary.py",
    "tests/test_transcript_mirror.py",
)


def main(checkout: str, *arguments: str) -> int:
    """Run them; return what pytest returns."""
    directory = Path(checkout).resolve()
    return run_pytest(directory, *FILES, "-k", "not trio", *arguments, plugin=PLUGIN)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
