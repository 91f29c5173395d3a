"""Pages and docstrings keep to the rules of how we write: see `tests.docs.prose`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT
from tests.docs.prose import RULES, findings

MODULES = "agents blocking bundles exporting importer scoped sessions sql telemetry"
SHOWN = ["foldlog", *(f"foldlog.{name}" for name in MODULES.split())]

PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.joinpath("docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_plain_english(page: Path) -> None:
    name = str(page.relative_to(ROOT))
    assert [f"{name}:{line}: {words!r}: {advice}" for line, words, advice in _findings(page)] == []


def _findings(page: Path) -> list[tuple[int, str, str]]:
    return [tuple(finding) for finding in findings(page.read_text("utf-8"))]


def test_public_docstrings_use_none_of_the_wrong_words() -> None:
    advice = set(RULES.values())
    found = {
        f"{name}: {finding.words!r}: {finding.advice}"
        for name, text in _docstrings()
        for finding in findings(text)
        if finding.advice in advice
    }
    assert sorted(found) == []


def _docstrings() -> Iterator[tuple[str, str]]:
    """Those that the reference shows: of public names, and of the methods of public classes."""
    for module in map(import_module, SHOWN):
        yield module.__name__, inspect.getdoc(module) or ""
        for name in getattr(module, "_PUBLIC", module.__all__):
            it = getattr(module, name)
            yield f"{module.__name__}.{name}", inspect.getdoc(it) or ""
            for method, value in inspect.getmembers(it) if isinstance(it, type) else ():
                if not method.startswith("_") and callable(value):
                    yield f"{module.__name__}.{name}.{method}", inspect.getdoc(value) or ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The store has kept it.", "kept"),
        ("It has two stores,\none of which is open.", "of which"),
        ("| a | whoever asks |", "whoever"),
        ("What is saved stays.", "What is saved stays."),
        ("Who saves it gets an ack.", "Who saves it gets an ack."),
        ("See `store._views` for it.", "See `store._views"),
        ("A store of its own.", "of its own"),
        ("word " * 46 + "end.", ("word " * 8)),
    ],
)
def test_a_planted_fault_is_found(text: str, words: str) -> None:
    [found] = findings(f"# Title\n\nGood.\n\n{text}\n")
    assert (found.line, found.words) == (5, words)


@pytest.mark.parametrize(
    "text",
    [
        "```python\nwhoever = kept\n```",
        "Use `kept` or [a link](whoever.md).",
        "What is a store?",
        "Its own store; the foreground task; chat rooms; ABSENT.",
    ],
)
def test_code_questions_and_names_are_no_fault(text: str) -> None:
    assert findings(text) == []
