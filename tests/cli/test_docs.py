"""The pages on the commands: every command has one, and what their examples show is what happens.

A block marked `console` is run line by line, on a namespace into which the conversations that come
along were imported, with their messages as events of a trace, too, in a directory that holds them
as `conversations.jsonl`. `...` stands for
whatever is different each time: on a line of its own for any number of lines, within a line for
some of it. `$ echo $?` shows the exit code of the command before it.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from foldlog.cli.app import app
from foldlog.importer import demo_transcript
from tests.cli.support import Cli, run

PAGES = Path(__file__).parents[2] / "docs/reference/cli"
NAMES = [str(each.name) for each in app.registered_commands]


def examples(page: Path) -> Iterator[tuple[str, str]]:
    """The commands of a page, each with the output it is to have."""
    for block in re.findall(r"^```console\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
        for example in re.split(r"^\$ ", block, flags=re.M)[1:]:
            line, _, output = example.partition("\n")
            yield line, output


def is_shown(output: str, expected: str) -> bool:
    """Whether `output` is what `expected` says."""
    pattern = re.escape(_even(expected)).replace(r"\.\.\.", ".*?")
    return re.fullmatch(pattern, _even(output), re.S) is not None


def _even(text: str) -> str:
    """`text` with columns two blanks apart: how wide they are depends on what is in them."""
    lines = (re.sub(r"(?<=\S) {2,}", "  ", line.rstrip()) for line in text.rstrip().splitlines())
    return "\n".join(lines)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_a_command(
    name: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, purging_at_once: None
) -> None:
    """It has an example with its output, names every option of its own, and is in the index."""
    page = PAGES / f"{name}.md"
    text = page.read_text("utf-8")
    assert f"({name}.md)" in (PAGES / "index.md").read_text("utf-8")
    for option in re.findall(r"--[a-z-]+", cli(name, "--help").stdout):
        if option not in {"--url", "--path", "--namespace", "--creds", "--json", "--help"}:
            assert f"`{option}" in text, option

    shutil.copy(demo_transcript(), tmp_path / "conversations.jsonl")
    monkeypatch.chdir(tmp_path)
    if name == "archive":
        monkeypatch.setenv("FOLDLOG_ARCHIVE", "archive")
    if name != "import":
        assert cli("import", "conversations.jsonl").code == 0
        asyncio.run(cli.record_events())
    code, ran = 0, 0
    for line, expected in examples(page):
        if line == "echo $?":
            assert expected.strip() == str(code), page.name
            continue
        program, *args = shlex.split(line)
        assert program == "foldlog"
        # The demo kills its server, which must not be the one of the test run.
        result = run(*args) if args[0] == "demo" else cli(*args)
        code = result.code
        ran += 1
        shown = result.stdout + result.stderr
        assert is_shown(shown, expected), f"{page.name}: $ {line}\n{shown}"
    assert ran > 0 or name in ("serve", "ui"), "a page without an example"
