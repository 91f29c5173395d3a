"""The page's program by meaning runs, where its package is."""

from __future__ import annotations

from pathlib import Path

from tests.docs.markdown import ROOT, read
from tests.docs.programs import run


def test_the_pages_program_finds_what_is_meant(tmp_path: Path) -> None:
    blocks = read(ROOT / "docs/guides/scoped.md").blocks
    [program] = [block for block in blocks if block.marker == "needs-semantic"]
    ran = run(program.text, tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "note\n"), ran.stderr
