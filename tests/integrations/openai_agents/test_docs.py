"""The guide's programs with OpenAI Agents print what the guide says, and the example runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, Block
from tests.docs.programs import run, with_outputs

pytest.importorskip("agents.testing", reason="this openai-agents has no scripted model")

PROGRAMS = with_outputs("integrations/openai_agents.md", "needs-openai-agents")


@pytest.mark.parametrize(("program", "output"), PROGRAMS, ids=lambda block: block.name)
def test_a_program_of_the_guide_runs(program: Block, output: Block, tmp_path: Path) -> None:
    ran = run(program.text, tmp_path)
    assert ran.stdout == output.text, ran.stderr


def test_the_example_waits_for_a_person_and_goes_on_in_another_process(tmp_path: Path) -> None:
    example = (ROOT / "examples" / "openai_agents_agent.py").read_text("utf-8")
    first, second = run(example, tmp_path), run(example, tmp_path)
    assert first.stdout == "waiting for approval; run it again\n", first.stderr
    assert second.stdout == 'approved: refund {"order":7}\nIt is on its way.\n', second.stderr
