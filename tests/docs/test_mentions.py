"""A page that code, a Makefile or another page names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT

NAMED = re.compile(r"(?<![\w/.])docs/[\w/-]+\.(?:md|svg|png)")
WHERE = ("src", "projections", "tests", "benchmarks", "deploy", "examples", ".ci", ".github")
FILES = [
    *(path for path in ROOT.iterdir() if path.is_file()),
    *(path for folder in WHERE for path in ROOT.joinpath(folder).rglob("*")),
]
KINDS = {".py", ".md", ".js", ".html", ".yml", ".yaml", ""}
TEXTS = [path for path in FILES if path.suffix in KINDS]


def named_in(path: Path) -> list[str]:
    return NAMED.findall(path.read_text("utf-8", errors="ignore")) if path.is_file() else []


@pytest.mark.parametrize("folder", ["", *WHERE])
def test_every_page_that_is_named_is_there(folder: str) -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in TEXTS
        if (path.relative_to(ROOT).parts[0] == folder) or (not folder and path.parent == ROOT)
        for name in named_in(path)
        if not ROOT.joinpath(name).exists()
    ]
    assert missing == []
