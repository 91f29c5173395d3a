"""The guide's programs print what the guide says, and the example runs, with a scripted Claude."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, Block
from tests.docs.programs import run, with_outputs

SCRIPTED = ROOT / "examples" / "scripted_claude.py"
PROGRAMS = with_outputs("integrations/claude_agent.md", "needs-claude-agent")

# The page's programs name no executable: the SDK finds the one that is installed.
FOUND = f"""\
from claude_agent_sdk._internal.transport import subprocess_cli
subprocess_cli.SubprocessCLITransport._find_cli = lambda self: {str(SCRIPTED)!r}
"""


@pytest.fixture(autouse=True)
def _no_claude_of_the_developers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))


@pytest.mark.parametrize(("program", "output"), PROGRAMS, ids=lambda block: block.name)
def test_a_program_of_the_guide_runs(program: Block, output: Block, tmp_path: Path) -> None:
    ran = run(FOUND + program.text, tmp_path)
    assert ran.stdout == output.text, ran.stderr


def test_the_example_goes_on_where_another_process_ended(tmp_path: Path) -> None:
    shutil.copy(SCRIPTED, tmp_path)
    example = (ROOT / "examples" / "claude_agent_agent.py").read_text("utf-8")
    first, second = run(example, tmp_path), run(example, tmp_path)
    assert first.stdout.splitlines()[:1] == ["I was told 1 thing, at last: Hello"], first.stderr
    assert second.stdout.splitlines() == [
        "I was told 2 things, at last: Hello",
        "a session that began with 'Hello'",
    ], second.stderr
