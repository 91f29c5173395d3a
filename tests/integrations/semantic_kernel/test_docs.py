"""The guide's programs with Semantic Kernel run, and print what the guide says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.markdown import Block
from tests.docs.programs import run, with_outputs

PROGRAMS = with_outputs("guides/frameworks/semantic_kernel.md", "needs-semantic-kernel")


@pytest.mark.parametrize(("program", "output"), PROGRAMS, ids=lambda block: block.name)
def test_a_program_of_the_guide_runs(program: Block, output: Block, tmp_path: Path) -> None:
    ran = run(program.text, tmp_path)
    assert ran.stdout == output.text, ran.stderr
