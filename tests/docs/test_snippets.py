"""The README and the docs keep their word: snippets run, commands exist, links lead somewhere.

A Python block runs by itself in an empty directory, as a script or, where it awaits at its top
level, under asyncio. Directly above a block may stand

- `<!-- snippet: needs-cluster -->`: it needs a server of the reader's, and is only compiled;
- `<!-- snippet: needs-penguiflow -->`, and the same with another integration's name: it runs with
  the tests of that integration, and is only compiled here;
- `<!-- snippet: needs-pandas -->`: it is only compiled;
- `<!-- snippet: cell -->`: the cells of a page run in order, as those of a notebook;
- `<!-- snippet: output -->`: the block is what the Python block before it prints;
- `<!-- snippet: file -->`, `shell` and `cluster`: `test_stories.py` runs it.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from benchmarks.__main__ import SCENARIOS

from tests.cli.support import Run, run as run_command
from tests.docs.markdown import ROOT, Block, Page, pages
from tests.docs.programs import run
from tests.support.workers import PATIENCE, environment

PAGES = pages()
BLOCKS = [block for page in PAGES for block in page.blocks]
PYTHON = [block for block in BLOCKS if block.language == "python"]
OUTPUTS = {
    before: after
    for page in PAGES
    for before, after in pairwise(page.blocks)
    if after.marker == "output"
}
COMPILED_ONLY = {
    "cell",
    "file",
    "needs-cluster",
    "needs-a2a",
    "needs-agent-framework",
    "needs-assistant-ui",
    "needs-autogen",
    "needs-claude-agent",
    "needs-google-adk",
    "needs-langgraph",
    "needs-openai-agents",
    "needs-pandas",
    "needs-penguiflow",
    "needs-pydantic-ai",
    "needs-semantic",
}
MARKERS = {None, "output", "shell", "beside", "cluster", *COMPILED_ONLY}


def commands() -> list[tuple[Block, list[str]]]:
    """Every command of a console block, as words."""
    return [
        (block, shlex.split(line[2:], comments=True))
        for block in BLOCKS
        if block.language == "console"
        for line in block.text.splitlines()
        if line.startswith("$ ")
    ]


FOLDLOG = {tuple(words[1:]): block for block, words in commands() if words[:1] == ["foldlog"]}
MAKE = {word: block for block, words in commands() if words[:1] == ["make"] for word in words[1:2]}


# --- snippets -----------------------------------------------------------------------------------


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.name)
def test_a_python_snippet_runs(block: Block, tmp_path: Path) -> None:
    compile(block.text, block.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if block.marker in COMPILED_ONLY:
        return
    ran = run(block.text, tmp_path, strict=True)
    assert ran.returncode == 0, f"{block.name}\n{ran.stderr}"
    if block in OUTPUTS:
        assert ran.stdout == OUTPUTS[block].text


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "cell" in {block.marker for block in page.blocks}]
)
def test_the_cells_of_a_notebook_run_in_order(page: Page, tmp_path: Path) -> None:
    cells = [block for block in page.blocks if block.marker == "cell"]
    ran = run("".join(cell.text for cell in cells), tmp_path, strict=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "".join(OUTPUTS[cell].text for cell in cells if cell in OUTPUTS)


def test_a_page_whose_snippets_are_no_scripts_says_so() -> None:
    silent = []
    for page in PAGES:
        try:
            for block in page.blocks:
                if block.language == "python" and block.marker not in ("cell", "needs-pandas"):
                    compile(block.text, block.name, "exec")
        except SyntaxError:
            if "`await` at the top level" not in page.path.read_text("utf-8"):
                silent.append(block.name)
    assert silent == []


def test_every_marker_is_known_and_outputs_follow_python() -> None:
    assert {block.marker for block in BLOCKS} <= MARKERS
    assert {block.language for block in OUTPUTS} <= {"python"}
    assert len(OUTPUTS) == sum(block.marker == "output" for block in BLOCKS)


def test_the_readme_and_the_site_begin_with_the_same_program() -> None:
    [readme, site] = [
        next(block.text for block in page.blocks if block.language == "python")
        for page in PAGES
        if page.path in (ROOT / "README.md", ROOT / "docs/index.md")
    ]
    assert readme == site


def test_the_readme_installs_runs_a_program_and_ends_with_its_two_commands() -> None:
    [readme] = [page for page in PAGES if page.path == ROOT / "README.md"]
    first, last = readme.blocks[0], readme.blocks[-1]
    assert first.text.split() == ["$", "pip", "install", "foldlog"]
    assert [line.split("#")[0].split() for line in last.text.splitlines()] == [
        ["$", "make", "demo"],
        ["$", "make", "test"],
    ]
    assert any(block.language == "python" and block.marker is None for block in readme.blocks)


# --- commands -----------------------------------------------------------------------------------


def test_the_program_is_installed() -> None:
    program = Path(sys.executable).with_name("foldlog")
    ran = subprocess.run(
        [program, "--help"],
        env=environment(TERM="dumb", NO_COLOR="1"),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert {command for command, *_ in FOLDLOG} <= set(ran.stdout.split())


@pytest.mark.parametrize("words", FOLDLOG, ids=" ".join)
def test_a_foldlog_command_exists_with_its_options(words: tuple[str, ...]) -> None:
    command, *arguments = words
    shown = help_of(command)
    assert shown.code == 0, f"{FOLDLOG[words].name}\n{shown.stderr}"
    options = [word.partition("=")[0] for word in arguments if word.startswith("--")]
    for option in options:
        assert re.search(rf"(?<![\w-]){option}(?![\w-])", shown.stdout), f"{command}: no {option}"


@cache
def help_of(command: str) -> Run:
    """What a command says of itself."""
    return run_command(command, "--help")


def test_every_scenario_of_a_benchmark_exists() -> None:
    named = {
        scenario
        for page in PAGES
        for given in re.findall(r"--only ([a-z_ -]+)", page.path.read_text("utf-8"))
        for scenario in given.split()
    }
    assert {"saves", "langgraph"} <= named <= SCENARIOS.keys()


@pytest.mark.parametrize("target", MAKE)
def test_a_make_target_exists(target: str) -> None:
    makefile = ROOT.joinpath("Makefile").read_text("utf-8")
    assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), MAKE[target].name


# --- links --------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.path.relative_to(ROOT)))
def test_relative_links_lead_to_files_and_headings(page: Page) -> None:
    anchors = {other.path: other.anchors for other in PAGES}
    broken = []
    for line, target in page.links:
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        wanted = (page.path.parent / path).resolve() if path else page.path
        if not wanted.exists() or (fragment and fragment not in anchors.get(wanted, set())):
            broken.append(f"line {line}: {target}")
    assert broken == []
