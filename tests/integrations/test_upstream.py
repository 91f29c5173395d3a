"""The runner of frameworks' own tests: what it calls well, and what not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integrations.upstream import Missing, Suite, is_well

pytestmark = pytest.mark.long

PLUGIN = """
import framework

NOT_OURS = {"test_left_out": "a reason"}

def stand_in():
    framework.answer = lambda: "ours"
"""
FRAMEWORK = """
def answer():
    return "theirs"
"""
BEGINNING = """
import pytest
from framework import answer

"""
PASSES = "def test_passes(): pass\n"
LEFT_OUT = "def test_left_out(): assert False\n"
FAILS_WITH_OURS = "def test_it(): assert answer() == 'theirs'\n"
FAILS_WITH_BOTH = "def test_it(): assert answer() == 'another'\n"
CANNOT_BE_SET_UP = """
@pytest.fixture
def needed(): raise RuntimeError

def test_it(needed): pass
"""
CONTROL_CANNOT_BE_SET_UP = """
@pytest.fixture
def needed():
    if answer() == "theirs":
        raise RuntimeError

def test_it(needed): assert False
"""
CONTROL_CANNOT_BE_IMPORTED = """
if answer() == "theirs":
    raise ImportError

def test_it(): assert False
"""


@pytest.fixture(autouse=True)
def without_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of frameworks take seconds to import."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        (PASSES + LEFT_OUT, True),
        (PASSES + FAILS_WITH_OURS, False),
        (PASSES + FAILS_WITH_BOTH, True),
        (PASSES + CANNOT_BE_SET_UP, False),
        (PASSES + CONTROL_CANNOT_BE_SET_UP, False),
        (PASSES + CONTROL_CANNOT_BE_IMPORTED, False),
        (LEFT_OUT, False),
        (FAILS_WITH_BOTH, False),
        ("", False),
        ("import nothing_of_this_name\n" + PASSES, False),
        ("assert answer() == 'ours'\n" + PASSES, True),
    ],
)
def test_a_suite_is_well_if_what_passes_with_theirs_passes_with_ours(
    tmp_path: Path, tests: str, expected: bool
) -> None:
    tmp_path.joinpath("framework.py").write_text(FRAMEWORK)
    tmp_path.joinpath("stands_in.py").write_text(PLUGIN)
    tmp_path.joinpath("test_theirs.py").write_text(BEGINNING + tests)
    suite = Suite("framework", ".", ("test_theirs.py",), "stands_in", source=".")
    assert is_well(tmp_path / "stands_in.py", suite, tmp_path) is expected


def test_without_a_control_every_failure_counts(tmp_path: Path) -> None:
    tmp_path.joinpath("framework.py").write_text(FRAMEWORK)
    tmp_path.joinpath("stands_in.py").write_text(PLUGIN)
    tmp_path.joinpath("test_theirs.py").write_text(BEGINNING + PASSES + FAILS_WITH_BOTH)
    suite = Suite("", ".", ("test_theirs.py",), "stands_in", source=".", has_control=False)
    assert not is_well(tmp_path / "stands_in.py", suite, tmp_path)


def test_a_suite_whose_files_are_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="has no test_theirs"):
        is_well(tmp_path, Suite("", ".", ("test_theirs.py",), "stands_in"), tmp_path)
