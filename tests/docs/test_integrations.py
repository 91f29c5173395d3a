"""The table of frameworks names the versions that the tests run with, and every adapter."""

from __future__ import annotations

import pkgutil
import re
import tomllib
from pathlib import Path

import pytest

import foldlog.integrations

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/guides/frameworks/index.md"
ROW = re.compile(r"^\| [^|]+ \| `([^`]+)` \| ([^|]+) \| `([^`]+)` \|", re.MULTILINE)
ROWS = {package: (tested, module) for package, tested, module in ROW.findall(PAGE.read_text())}
HELPERS = {"calls", "access", "objects", "required", "waiting"}
BY_PLAN = {"rh_agents"}
"""Made from a framework's plan: there is no version to test with."""


def versions(constraints: str) -> dict[str, str]:
    text = (ROOT / f"constraints-{constraints}.txt").read_text("utf-8")
    return dict(re.findall(r"^([a-z0-9-]+)==([^ ]+)", text, re.MULTILINE))


@pytest.mark.parametrize("package", ROWS)
def test_the_versions_are_those_that_the_tests_run_with(package: str) -> None:
    newest = versions("integrations")[package]
    oldest = versions("integrations-oldest").get(package, newest)
    assert ROWS[package][0] == (newest if oldest == newest else f"{oldest} to {newest}")


@pytest.mark.parametrize("package", ROWS)
def test_a_frameworks_page_names_the_same_versions(package: str) -> None:
    tested, module = ROWS[package]
    assert f"Tested with `{package}` {tested}" in PAGE.with_name(f"{module}.md").read_text("utf-8")


@pytest.mark.parametrize("package", ROWS)
def test_the_oldest_version_is_where_the_range_of_the_extra_begins(package: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [
        requirement
        for requirements in extras["optional-dependencies"].values()
        for requirement in requirements
        if re.match(rf"{package}\b(?!-)", requirement)
    ]
    begins = re.search(r">=([0-9.]+)", wanted[0])
    assert begins
    oldest, _, _ = ROWS[package][0].partition(" to ")
    assert f"{oldest}.".startswith(f"{begins[1]}.")


def test_every_adapter_has_its_row() -> None:
    modules = {info.name for info in pkgutil.iter_modules(foldlog.integrations.__path__)}
    assert modules - HELPERS - BY_PLAN <= {module for _, module in ROWS.values()}
