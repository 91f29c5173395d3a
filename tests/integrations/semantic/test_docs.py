"""The page's program by meaning runs, where its package is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.markdown import ROOT, read
from tests.docs.test_snippets import RUNNER, run


def test_the_pages_program_finds_what_is_meant(tmp_path: Path) -> None:
    [program] = [
        block
        for block in read(ROOT / "docs" / "scoped.md").blocks
        if block.marker == "needs-semantic"
    ]
    script = tmp_path / "snippet.py"
    script.write_text(program.text, "utf-8")
    ran: subprocess.CompletedProcess[str]
    ran = run([sys.executable, "-c", RUNNER, str(script)], tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "note\n"
