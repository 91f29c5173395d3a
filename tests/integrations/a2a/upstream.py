"""Runs the A2A SDK's own tests on foldlog: python -m tests.integrations.a2a.upstream CHECKOUT

CHECKOUT is a clone of a2aproject/a2a-python, of the version that is installed. Nothing is fetched,
and nothing of it is copied: its tests of stores and of two replicas run where they lie, with a
plugin that puts foldlog's classes in place of the SDK's. Run it where
tests/integrations/requirements.in is installed. Whatever follows the checkout goes to pytest.

What fails is tried again with the SDK's own stores, and counts where those pass: tests of another
version than the installed one fail with both.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.integrations.upstream import run_pytest

STORES: Final = (
    "tests/server/tasks/test_database_task_store.py",
    "tests/server/tasks/test_inmemory_task_store.py",
    "tests/server/tasks/test_database_push_notification_config_store.py",
    "tests/server/tasks/test_inmemory_push_notifications.py",
)
CLUSTER: Final = "tests/server/cluster"


def failing(whose: str, checkout: Path, *arguments: str) -> tuple[int, list[str]]:
    """Run tests with somebody's stores; return what pytest does, and which failed."""
    plugin = Path(__file__).with_name("upstream_stores.py")
    with tempfile.TemporaryDirectory() as directory:
        failed = Path(directory, "failed")
        variables = {"FOLDLOG_UPSTREAM": whose, "FOLDLOG_UPSTREAM_FAILED": str(failed)}
        code = run_pytest(checkout, *arguments, plugin=plugin, variables=variables)
        return code, failed.read_text("utf-8").splitlines() if failed.exists() else []


def main(checkout: str, *arguments: str) -> int:
    """Run them; return 0 if all pass that pass with the SDK's own stores."""
    where = Path(checkout).resolve()
    suites = [each for each in (*STORES, CLUSTER) if (where / each).exists()]
    code, failed = failing("foldlog", where, *suites, *arguments)
    if code != 1:
        return code
    _, theirs = failing("sdk", where, *failed)
    missed = sorted(set(failed).difference(theirs))
    sys.stdout.write("".join(f"passes with the SDK's own stores: {each}\n" for each in missed))
    return min(len(missed), 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
