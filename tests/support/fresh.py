"""A fresh interpreter, for what only one shows that has loaded nothing yet."""

from __future__ import annotations

import subprocess
import sys

from tests.support.workers import PATIENCE


def fresh_python(code: str, *arguments: str) -> str:
    """What it prints for `code`, whose `sys.argv[1:]` are the arguments; warnings are errors."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.strip()
