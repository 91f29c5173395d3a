"""Every part of the package stands on a floor, so that no import escapes the contract on them."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import foldlog

ROOT = Path(__file__).parents[2]


def test_every_module_below_the_package_stands_on_a_floor() -> None:
    settings = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))
    (floors,) = (
        contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    named = {name.strip() for floor in floors for name in floor.split("|")}
    modules = {
        f"foldlog.{path.stem}"
        for path in Path(foldlog.__file__).parent.iterdir()
        if path.is_dir() or path.suffix == ".py"
    }
    assert named - {"foldlog_projections"} == {
        name for name in modules if not name.startswith("foldlog.__")
    }


BELOW = {
    *("hot_views", "forked_log", "backend", "drafted", "drafts"),
    *("append_drafts", "append_at_once", "read", "read_at", "read_stored_at"),
}
"""Parts of a store's core that its public methods are made of."""


def test_adapters_stand_on_what_every_program_may_call() -> None:
    for path in Path(foldlog.__file__).parent.joinpath("integrations", "langgraph").glob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        used = {
            each.attr
            for each in nodes
            if isinstance(each, ast.Attribute) and ast.unparse(each.value).startswith("core_of(")
        }
        modules = {each.module for each in nodes if isinstance(each, ast.ImportFrom)}
        assert not used & BELOW, path
        assert not modules & {"foldlog.store.decisions", "foldlog.store.operation"}, path
