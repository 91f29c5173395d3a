"""The guide's programs with AutoGen run, and print what the guide says."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, Block, read

PROGRAMS = [
    (block, after)
    for block, after in pairwise(read(ROOT / "docs" / "agents.md").blocks)
    if block.marker == "needs-autogen"
]


@pytest.mark.parametrize(("program", "output"), PROGRAMS, ids=lambda block: block.name)
def test_a_program_of_the_guide_runs(program: Block, output: Block, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "FOLDLOG_URL"}
    ran = subprocess.run(
        [sys.executable, "-c", program.text],
        cwd=tmp_path,
        env=environment | {"FOLDLOG_PATH": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert output.marker == "output"
    assert ran.stdout == output.text, ran.stderr
