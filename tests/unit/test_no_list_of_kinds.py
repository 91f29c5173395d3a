"""What a part has to know of a kind, the kind declares: no part lists kinds by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import foldlog
import foldlog_projections
from foldlog_projections.registry import KINDS

PACKAGE = Path(foldlog.__file__).parent
NAMES = {kind.name for kind in KINDS}
TYPES = {type_ for kind in KINDS for type_ in kind.records}
KIND_MODULES = {
    path.stem
    for path in Path(foldlog_projections.__path__[0]).rglob("*.py")
    if re.search(r"^kind: Final = Kind\(", path.read_text("utf-8"), re.MULTILINE)
}
CAPABILITIES = (
    {"artifact", "artifacts"},
    {"bindings", "routes"},
    {"events", "planner"},
    {"traces", "trajectory"},
)
"""Kinds that are kept by the same methods. Every other kind is a capability of its own."""

BY_NAME = {"kinds", "_kinds"}
READING = {"view", "keys", "items", "watch"}

DRAWN = {"core/log.js", "views/run.js", "views/said.js", "views/state.js", "views/timeline.js"}
"""Modules of the page that draw what a kind's state holds, beside the folds of `folds/`."""


def modules(package: str) -> list[Path]:
    found = sorted((PACKAGE / package).rglob("*.py"))
    assert found
    return found


def imported(tree: ast.Module) -> Iterator[str]:
    """The modules of kinds that a module imports, wherever it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            package, _, module = node.module.partition(".")
            names = [module] if module else [each.name for each in node.names]
            if package == "foldlog_projections":
                yield from KIND_MODULES.intersection(names)


def named(tree: ast.Module) -> Iterator[str]:
    """Types of records, and kinds that are looked up by name."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str() as text) if text in TYPES:
                yield text
            case ast.Subscript(
                value=ast.Name(id=of) | ast.Attribute(attr=of), slice=ast.Constant(value=text)
            ) if of in BY_NAME and text in NAMES:
                yield text
            case ast.Attribute(value=ast.Name(id="kinds"), attr=name) if name in NAMES:
                yield name
            case ast.Call(func=ast.Attribute(attr=method), args=[ast.Constant(value=text), *_]) if (
                method in READING and text in NAMES
            ):
                yield text
            case ast.Dict(keys=keys) | ast.Set(elts=keys) | ast.Tuple(elts=keys):
                texts = [each.value if isinstance(each, ast.Constant) else None for each in keys]
                if len(texts) > 1 and NAMES.issuperset(texts):
                    yield f"a list of kinds: {texts}"


@pytest.mark.parametrize("package", ["sql", "ui", "cli", "exporting"])
def test_what_shows_and_copies_names_no_kind(package: str) -> None:
    for path in modules(package):
        tree = ast.parse(path.read_text("utf-8"))
        assert [*imported(tree), *named(tree)] == [], path


def test_a_module_of_the_store_knows_the_kinds_of_one_capability() -> None:
    for path in modules("store"):
        tree = ast.parse(path.read_text("utf-8"))
        found = set(imported(tree))
        assert len(found) <= 1 or any(found <= each for each in CAPABILITIES), (path, found)
        assert list(named(tree)) == [], path


def test_modules_of_the_page_that_know_no_kind() -> None:
    for path in sorted((PACKAGE / "ui/static").rglob("*.js")):
        name = path.relative_to(PACKAGE / "ui/static").as_posix()
        if not name.startswith("folds/") and name not in DRAWN:
            texts = set(re.findall(r'"([a-z_.]+)"', path.read_text("utf-8")))
            assert not texts & TYPES, name


def test_every_record_of_a_built_in_kind_is_put_in_words() -> None:
    for kind in KINDS:
        assert kind.shown.lines.keys() == kind.records.keys(), kind
