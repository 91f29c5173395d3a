"""The guide's program runs, and prints what the guide says."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from tests.docs.markdown import ROOT, read


def test_the_guides_program_runs(tmp_path: Path) -> None:
    blocks = read(ROOT / "docs" / "penguiflow.md").blocks
    [(program, output)] = [
        (block, after) for block, after in pairwise(blocks) if block.marker == "needs-penguiflow"
    ]
    environment = {name: value for name, value in os.environ.items() if name != "FOLDLOG_URL"}
    ran = subprocess.run(
        [sys.executable, "-c", program.text],
        cwd=tmp_path,
        env=environment | {"FOLDLOG_PATH": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.stdout, ran.stderr) == (output.text, "")
