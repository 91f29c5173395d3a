"""A forked child has the adapter, but not its thread: it opens a store of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations.penguiflow import forking
from tests.support.workers import PATIENCE


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_a_forked_child_opens_a_store_of_its_own(embedded_path: Path, namespace: str) -> None:
    ended = subprocess.run(
        [sys.executable, forking.__file__, str(embedded_path), namespace],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == [[0, 0, 0], ["before", "child", "after"]]
    assert ended.stderr == ""
