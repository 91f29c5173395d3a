"""Programs of the pages run as a reader's would: by themselves, in an empty directory."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.docs.markdown import ROOT, Block, read
from tests.support.forked import process_of, run_program
from tests.support.workers import PATIENCE, environment


class Ran(NamedTuple):
    """How a program ended, and what it printed."""

    returncode: int | None
    stdout: str
    stderr: str


def run(program: str, directory: Path, *, strict: bool = False) -> Ran:
    """Run a program, as a script or, where it awaits at its top level, under asyncio.

    Its data is in `directory` too. Where `strict`, a warning is an error.
    """
    script, printed, complaint = (directory / name for name in ("snippet.py", ".out", ".err"))
    script.write_text(program, "utf-8")
    process = process_of(target=_run, args=(script, printed, complaint, strict))
    process.start()
    process.join(PATIENCE)
    if process.is_alive():
        process.kill()
        process.join()
    return Ran(process.exitcode, printed.read_text("utf-8"), complaint.read_text("utf-8"))


def _run(script: Path, printed: Path, complaint: Path, strict: bool) -> None:
    for path, fd in ((printed, 1), (complaint, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), fd)
    os.chdir(script.parent)
    variables = environment(FOLDLOG_PATH=str(script.parent / "data"), COLUMNS="200", TERM="dumb")
    run_program(script, [str(script)], variables, strict=strict)


def with_outputs(page: str, marker: str) -> list[tuple[Block, Block]]:
    """The programs of a page of docs that are marked, each with the block of what it prints."""
    blocks = read(ROOT / "docs" / page).blocks
    pairs = [(block, after) for block, after in pairwise(blocks) if block.marker == marker]
    assert {output.marker for _, output in pairs} == {"output"}
    return pairs
