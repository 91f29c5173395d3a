"""Runs ADK's own tests on foldlog: python -m tests.integrations.google_adk.upstream CHECKOUT

CHECKOUT is a clone of github.com/google/adk-python. Nothing is fetched, and nothing of it is
copied: its tests of services run where they lie, with a plugin that puts foldlog's services in
place of ADK's. Run it where tests/integrations/requirements.in is installed, with
`sqlalchemy[asyncio]`, `aiosqlite` and `redis`, which the tests import. Whatever follows the
checkout goes to pytest.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.integrations.upstream import run_pytest

PLUGIN: Final = Path(__file__).parent / "upstream_services.py"
SUITES: Final = (
    "tests/unittests/sessions/test_session_service.py",
    "tests/unittests/artifacts/test_artifact_service.py",
    "tests/unittests/memory/test_in_memory_memory_service.py",
)


def main(checkout: str, *arguments: str) -> int:
    """Run the suites that the checkout has; return what pytest returns."""
    where = Path(checkout).resolve()
    found = [suite for suite in SUITES if (where / suite).exists()]
    return run_pytest(where, *found, "-o", "asyncio_mode=auto", *arguments, plugin=PLUGIN)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
