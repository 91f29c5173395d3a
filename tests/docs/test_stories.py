"""The tutorial and some guides, as a reader follows them: the pages of a story, in one folder.

A block marked `file` is saved under its title. One marked `shell` is run line by line; `...` stands
for whatever is different each time. One marked `beside` is begun, and goes on beside what follows.
One marked `cluster` is run with three local servers instead of those that `compose.yaml` starts.
`QUESTION` is the last question's id.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import signal
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.cli.test_docs import is_shown
from tests.docs.markdown import ROOT, Block, pages, read
from tests.support.cluster import LocalCluster
from tests.support.workers import PATIENCE, environment

TUTORIAL = sorted(ROOT.glob("docs/tutorial/[1-9]-*.md"))
STORIES = {"tutorial": TUTORIAL} | {
    page.path.stem: [page.path]
    for page in pages()
    if page.path not in TUTORIAL and "file" in {block.marker for block in page.blocks}
}
PROGRAMS = {
    "python": [sys.executable],
    "foldlog": [sys.executable, "-m", "foldlog"],
    "pytest": [sys.executable, "-m", "pytest"],
}
QUESTION = re.compile(r"\bquestion/\S+")


class Terminal:
    """A reader's terminal in one folder: its variables, and what it has shown."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.shown = folder, ""
        self.variables = environment(COLUMNS="400", TERM="dumb", FOLDLOG_PATH=str(folder / "data"))
        self.beside: list[subprocess.Popen[bytes]] = []

    def run(self, line: str) -> str:
        """Run one command, and return what it prints."""
        words, variables = self._words(line)
        ran = subprocess.run(
            words,
            cwd=self.folder,
            env=variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert ran.returncode in (0, -signal.SIGKILL), f"{line}\n{ran.stderr}"
        shown = ran.stdout + ("Killed\n" if ran.returncode else "")
        self.shown += shown
        return shown

    def begin(self, line: str) -> None:
        """Begin a command that goes on beside the others."""
        words, variables = self._words(line)
        self.beside.append(subprocess.Popen(words, cwd=self.folder, env=variables))

    def close(self) -> None:
        """End what goes on."""
        for each in self.beside:
            each.kill()
            each.wait()

    def _words(self, line: str) -> tuple[list[str], dict[str, str]]:
        variables, words = dict(self.variables), shlex.split(line)
        while "=" in words[0]:
            name, _, variables[name] = words.pop(0).partition("=")
        if "QUESTION" in words:
            words[words.index("QUESTION")] = QUESTION.findall(self.shown)[-1]
        return [*PROGRAMS.get(words[0], words[:1]), *words[1:]], variables

    def follow(self, block: Block) -> None:
        """Save the file of a block, or run its commands and look at what they print."""
        if block.marker == "file":
            assert block.title
            (self.folder / block.title).write_text(block.text, "utf-8")
            return
        for example in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
            line, _, expected = example.partition("\n")
            if block.marker == "beside":
                self.begin(line)
                continue
            shown = self.run(line)
            assert is_shown(shown, expected), f"{block.name}: $ {line}\n{shown}"


@pytest.mark.long
@pytest.mark.parametrize("story", STORIES)
async def test_a_story_works_page_by_page(story: str, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    blocks = [block for page in STORIES[story] for block in read(page).blocks]
    async with AsyncExitStack() as stack:
        stack.callback(terminal.close)
        for block in blocks:
            if block.marker == "cluster" and "FOLDLOG_URL" not in terminal.variables:
                cluster = await stack.enter_async_context(LocalCluster())
                terminal.variables["FOLDLOG_URL"] = ",".join(cluster.urls)
            if block.marker in ("file", "shell", "beside", "cluster"):
                await asyncio.to_thread(terminal.follow, block)


@pytest.mark.long
@pytest.mark.parametrize("page", TUTORIAL[1:3], ids=lambda page: page.stem)
def test_a_model_that_changes_its_mind_after_a_kill_books_no_second_flight(
    page: Path, tmp_path: Path
) -> None:
    terminal = Terminal(tmp_path)
    for block in [*read(TUTORIAL[1]).blocks, *read(page).blocks]:
        if block.marker == "file":
            terminal.follow(block)
    if page == TUTORIAL[2]:  # it asks first
        terminal.run("python agent.py")
        terminal.run("foldlog waiting")
        terminal.run("foldlog answer QUESTION approve")
    assert "Killed" in terminal.run("CRASH=book python agent.py")
    agent = tmp_path / "agent.py"
    agent.write_text(agent.read_text("utf-8").replace('"flight 7', '"flight 9'), "utf-8")
    assert "flight 9" in agent.read_text("utf-8")
    assert terminal.run("python agent.py") == "Flight 7 to Oslo is booked.\n"
    assert (tmp_path / "world.txt").read_text("utf-8").count("book flight") == 1
