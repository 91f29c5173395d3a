"""Runs openai-agents' own tests: python -m tests.integrations.openai_agents.upstream CHECKOUT

CHECKOUT is a clone of its repository, whose own version is what is tested. Nothing of it is copied:
its tests of sessions, their limit, compaction and context run where they lie, with FoldlogSession
in the place of SQLiteSession. Whatever follows the checkout goes to pytest.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.integrations.upstream import run_pytest

PLUGIN: Final = Path(__file__).with_name("upstream_session.py")
FILES: Final = (
    "tests/memory/test_session.py",
    "tests/memory/test_session_limit.py",
    "tests/memory/test_openai_responses_compaction_session.py",
    "tests/memory/test_session_context_wrapper.py",
)


def main(checkout: str, *arguments: str) -> int:
    """Run them; return what pytest returns."""
    where = Path(checkout).resolve()
    return run_pytest(where, *FILES, *arguments, plugin=PLUGIN, paths=[where / "src"])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
