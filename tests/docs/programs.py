"""Programs of the pages run as a reader's would: by themselves, in an empty directory.

Each is a process of its own, forked from one that has imported foldlog and done nothing else: the
import costs more than all that most programs do.
"""

from __future__ import annotations

import ast
import asyncio
import atexit
import inspect
import multiprocessing
import os
import sys
import warnings
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.docs.markdown import ROOT, Block, read
from tests.support.workers import PATIENCE, environment

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.docs.preloaded"])


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
    process = _processes.Process(target=_run, args=(script, printed, complaint, strict))
    process.start()
    process.join(PATIENCE)
    if process.is_alive():
        process.kill()
        process.join()
    return Ran(process.exitcode, printed.read_text("utf-8"), complaint.read_text("utf-8"))


def _run(script: Path, printed: Path, complaint: Path, strict: bool) -> None:
    for path, fd in ((printed, 1), (complaint, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), fd)
    variables = environment(FOLDLOG_PATH=str(script.parent / "data"), COLUMNS="200", TERM="dumb")
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(script.parent)
    sys.path[0] = ""
    warnings.resetwarnings()
    if strict:
        warnings.simplefilter("error")
    source = script.read_text("utf-8")
    code = compile(source, str(script), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    coroutine = eval(code, {"__name__": "__main__"})
    if inspect.iscoroutine(coroutine):
        asyncio.run(coroutine)
    atexit._run_exitfuncs()


def with_outputs(page: str, marker: str) -> list[tuple[Block, Block]]:
    """The programs of a page of docs that are marked, each with the block of what it prints."""
    blocks = read(ROOT / "docs" / page).blocks
    pairs = [(block, after) for block, after in pairwise(blocks) if block.marker == marker]
    assert {output.marker for _, output in pairs} == {"output"}
    return pairs
