"""The guide's programs with Google's ADK print what the guide says, and the example runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, Block
from tests.docs.programs import run, with_outputs

PROGRAMS = with_outputs("integrations/google_adk.md", "needs-google-adk")


@pytest.mark.parametrize(("program", "output"), PROGRAMS, ids=lambda block: block.name)
def test_a_program_of_the_guide_runs(program: Block, output: Block, tmp_path: Path) -> None:
    ran = run(program.text, tmp_path)
    assert ran.stdout == output.text, ran.stderr


def test_the_example_goes_on_in_another_process(tmp_path: Path) -> None:
    example = (ROOT / "examples" / "google_adk_agent.py").read_text("utf-8")
    first, second = run(example, tmp_path), run(example, tmp_path)
    assert first.stdout == "guide: I will remember Oslo.\n", first.stderr
    assert second.stdout == "guide: You live in Oslo.\n", second.stderr
