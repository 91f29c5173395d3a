"""Runs LangGraph's own tests on foldlog: python -m tests.integrations.langgraph.upstream CHECKOUT

CHECKOUT is a clone of LangGraph's repository. Nothing is fetched, and nothing of it is copied: each
suite runs where it lies, with a plugin that puts foldlog's classes in place of LangGraph's: its
tests of graphs with a checkpointer, of stores, and the conformance suite. Run it where
tests/integrations/requirements.in is installed. Whatever follows the checkout goes to pytest.

What fails in the tests of graphs is tried again alone, and then with LangGraph's own SQLite saver.
It counts where that one passes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from tests.integrations.upstream import ROOT, run_pytest

HERE: Final = Path(__file__).parent


class Suite(NamedTuple):
    """Tests of one of LangGraph's libraries, and the plugin that puts foldlog under them."""

    library: str
    files: tuple[str, ...]
    plugin: str


GRAPHS: Final = Suite("libs/langgraph", (), "upstream_saver")
"""Those of its tests that ask for a checkpointer: see `upstream_saver`."""

CONFORMANCE: Final = "libs/checkpoint-conformance"

SUITES: Final = (
    Suite("libs/checkpoint", ("tests/test_store.py",), "upstream_store"),
    Suite(
        "libs/checkpoint-sqlite",
        ("tests/test_store.py", "tests/test_async_store.py", "tests/test_ttl.py"),
        "upstream_store",
    ),
    Suite(
        "libs/checkpoint-postgres",
        ("tests/test_store.py", "tests/test_async_store.py"),
        "upstream_postgres",
    ),
)


def run(suite: Suite, checkout: Path, *arguments: str, **variables: str) -> int:
    """Run a suite with these variables of the environment; return what pytest returns."""
    plugin = HERE / f"{suite.plugin}.py"
    directory = checkout / suite.library
    return run_pytest(directory, *suite.files, *arguments, plugin=plugin, variables=variables)


def run_graphs(checkout: Path, *arguments: str) -> int:
    """Run the tests of graphs; return 0 if all pass that pass with LangGraph's SQLite saver."""
    tests = checkout / GRAPHS.library / "tests"
    asking = [
        f"tests/{path.name}"
        for path in sorted(tests.glob("test_*.py"))
        if "sync_checkpointer" in path.read_text("utf-8")
    ]
    code, failed = _failing("foldlog", checkout, *asking, *arguments)
    if code == 1:
        code, failed = _failing("foldlog", checkout, *failed)  # alone, those that wait for times
    if code != 1:
        return code
    _, theirs = _failing("sqlite", checkout, *failed)
    missed = sorted(set(failed).difference(theirs))
    sys.stdout.write("".join(f"passes with LangGraph's SQLite saver: {each}\n" for each in missed))
    return min(len(missed), 1)


def _failing(whose: str, checkout: Path, *arguments: str) -> tuple[int, list[str]]:
    """Run tests of graphs with somebody's saver; return what pytest does, and which failed."""
    with tempfile.TemporaryDirectory() as directory:
        failed = Path(directory, "failed")
        code = run(
            *(GRAPHS, checkout, *arguments),
            NO_DOCKER="true",
            FOLDLOG_UPSTREAM=whose,
            FOLDLOG_UPSTREAM_FAILED=str(failed),
        )
        return code, failed.read_text("utf-8").splitlines() if failed.exists() else []


def run_conformance(checkout: Path, *arguments: str) -> int:
    """Run the checkout's conformance suite; return what pytest returns."""
    test = "tests/integrations/langgraph/test_conformance.py"
    return run_pytest(ROOT, test, "-s", *arguments, paths=[checkout / CONFORMANCE])


def main(checkout: str, *arguments: str) -> int:
    """Run all of them; return 0 if all passed."""
    where = Path(checkout).resolve()
    codes = [run(suite, where, *arguments) for suite in SUITES]
    return max(*codes, run_graphs(where, *arguments), run_conformance(where, *arguments))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
