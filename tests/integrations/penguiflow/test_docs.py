"""The guide's program runs, and prints what the guide says."""

from __future__ import annotations

from pathlib import Path

from tests.docs.programs import run, with_outputs


def test_the_guides_program_runs(tmp_path: Path) -> None:
    [(program, output)] = with_outputs("guides/frameworks/penguiflow.md", "needs-penguiflow")
    ran = run(program.text, tmp_path)
    assert (ran.stdout, ran.stderr) == (output.text, "")
