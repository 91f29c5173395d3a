"""Just enough Markdown for the tests of the documentation: fenced blocks, links and headings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^(?P<marks>`{3,})(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\s*$")
_MARKER = re.compile(r"^<!-- snippet: (?P<marker>[a-z0-9-]+) -->$")
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (?P<text>.+)$")
_CODE_SPAN = re.compile(r"`[^`]*`")


class Block(NamedTuple):
    """A fenced block. `line` is that of its first line of content, from 1; `title` names a file."""

    path: Path
    line: int
    language: str
    marker: str | None
    text: str
    title: str | None

    @property
    def name(self) -> str:
        """Where it stands, as in `README.md:12`."""
        return f"{self.path.relative_to(ROOT)}:{self.line}"


class Page(NamedTuple):
    """A Markdown file. `links` are targets with their line, those inside code left out."""

    path: Path
    blocks: list[Block]
    links: list[tuple[int, str]]
    anchors: set[str]


def pages() -> list[Page]:
    """The README, the other pages of the top level, and everything under docs."""
    paths = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.joinpath("docs").rglob("*.md"))]
    return [read(path) for path in paths]


def read(path: Path) -> Page:
    """Parse one file."""
    page = Page(path, [], [], set())
    marker: str | None = None
    lines = iter(enumerate(path.read_text("utf-8").splitlines(), 1))
    for number, line in lines:
        if fence := _FENCE.match(line):
            body: list[str] = []
            for _, inner in lines:
                if inner.strip() == fence["marks"]:
                    break
                body.append(inner)
            else:
                raise AssertionError(f"{path}:{number}: a fence is never closed")
            text = "\n".join(body) + "\n"
            block = Block(path, number + 1, fence["language"], marker, text, fence["title"])
            page.blocks.append(block)
        elif heading := _HEADING.match(line):
            page.anchors.add(_anchor(heading["text"]))
        else:
            prose = _CODE_SPAN.sub("", line)
            page.links.extend((number, link["target"]) for link in _LINK.finditer(prose))
        if line:
            found = _MARKER.match(line)
            marker = found["marker"] if found else None
    return page


def _anchor(heading: str) -> str:
    """The fragment that GitHub gives a heading: lower case, no punctuation, dashes for spaces."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
