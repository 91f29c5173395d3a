"""Programs of the pages run as a reader's would: by themselves, in an empty directory."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from tests.docs.markdown import ROOT, Block, read
from tests.support.workers import PATIENCE, environment

_RUNNER = """
import ast, asyncio, inspect, sys
source = open(sys.argv[1], encoding="utf-8").read()
code = compile(source, sys.argv[1], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
coroutine = eval(code, {"__name__": "__main__"})
if inspect.iscoroutine(coroutine):
    asyncio.run(coroutine)
"""


def run(program: str, directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a program, as a script or, where it awaits at its top level, under asyncio.

    Its data is in `directory` too; `options` are the interpreter's.
    """
    script = directory / "snippet.py"
    script.write_text(program, "utf-8")
    return subprocess.run(
        [sys.executable, *options, "-c", _RUNNER, str(script)],
        cwd=directory,
        env=environment(FOLDLOG_PATH=str(directory / "data"), COLUMNS="200", TERM="dumb"),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def with_outputs(page: str, marker: str) -> list[tuple[Block, Block]]:
    """The programs of a page of docs that are marked, each with the block of what it prints."""
    blocks = read(ROOT / "docs" / page).blocks
    pairs = [(block, after) for block, after in pairwise(blocks) if block.marker == marker]
    assert {output.marker for _, output in pairs} == {"output"}
    return pairs
