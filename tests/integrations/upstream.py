"""Runs frameworks' own tests on foldlog: python -m tests.integrations.upstream [FRAMEWORK] [ARGS]

The tests are those of the source archives of the versions that are installed: pip downloads them
into build/upstream. Where an archive has none, $FOLDLOG_<FRAMEWORK>_CHECKOUT is a clone of the
framework's repository; it is taken instead of archives where it is set. Nothing of either is
copied: each suite runs where it lies, with a plugin that puts foldlog's classes in place of the
framework's. ARGS go to pytest.

What fails is tried again alone, and then with the framework's own classes. It counts where those
pass. A suite of which no test passes, or which cannot be imported, has failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
HERE: Final = Path(__file__).parent
ARCHIVES: Final = ROOT / "build" / "upstream"
FAILED: Final = 1
"""What pytest returns where tests have failed, and nothing worse."""


class Missing(Exception):
    """A suite has no such tests here."""


class Suite(NamedTuple):
    """Tests of one distribution of a framework, and the plugin that puts foldlog under them.

    Attributes:
        distribution: whose source archive has the tests; "" if none has them.
        directory: where they lie in a clone of the repository.
        files: which they are.
        plugin: a module in the framework's folder here: see `upstreams/standing_in.py`.
        arguments: what else pytest gets.
        source: the directory in it to import the framework from. None: what is installed.
        has_control: whether the tests can run with the framework's own classes.
    """

    distribution: str
    directory: str
    files: tuple[str, ...]
    plugin: str
    arguments: tuple[str, ...] = ()
    source: str | None = None
    has_control: bool = True


class Ran(NamedTuple):
    """What came of a run: what pytest returned, how many passed, and which failed."""

    code: int
    passed: int
    skipped: int
    failed: list[str]


def run_framework(framework: str, arguments: Sequence[str]) -> str:
    """Run the suites of a framework; return "well", "FAILED", or why it was not run."""
    suites: tuple[Suite, ...] = import_module(f"tests.integrations.{framework}.upstream").SUITES
    checkout = f"FOLDLOG_{framework.upper()}_CHECKOUT"
    where = os.environ.get(checkout)
    if where is None:
        suites = tuple(suite for suite in suites if suite.distribution)
    if not suites:
        return f"no source archive has its tests: ${checkout} may be a clone of its repository"
    found = [_is_well(framework, suite, where, arguments) for suite in suites]
    return "well" if all(found) else "FAILED"


def _is_well(framework: str, suite: Suite, checkout: str | None, arguments: Sequence[str]) -> bool:
    try:
        if checkout is None:
            directory = _unpacked(suite.distribution)
        else:
            directory = Path(checkout, suite.directory).resolve()
        return is_well(HERE / framework / f"{suite.plugin}.py", suite, directory, arguments)
    except Missing as missing:
        print(f"\n{framework}: {missing}")
        return False


def is_well(plugin: Path, suite: Suite, directory: Path, arguments: Sequence[str] = ()) -> bool:
    """Run a suite that lies in a directory, and say what came of it; return whether all is well."""
    for file in suite.files:
        if not (directory / file).exists():
            raise Missing(f"{directory} has no {file}: it is of another version, or has no tests")

    def run(whose: str, *given: str) -> Ran:
        return _run(plugin, suite, directory, whose, (*suite.arguments, *given))

    ran = run("foldlog", *suite.files, *arguments)
    failed, missed = ran.failed, ran.failed
    if ran.code == FAILED:
        again = run("foldlog", *failed)
        missed = failed = again.failed if again.code <= FAILED else failed
        if failed and suite.has_control:
            theirs = run("theirs", *failed)
            missed = failed
            if theirs.code <= FAILED:
                missed = sorted(set(failed).difference(theirs.failed))
    counts = f"{ran.passed} passed, {ran.skipped} were left out, {len(failed)} failed"
    print(f"\n{directory.name}: {counts}; of those {len(missed)} count", *missed, sep="\n  ")
    if ran.code > FAILED or not ran.passed:
        print(f"pytest returned {ran.code}, and {ran.passed} tests passed: the suite did not run")
        return False
    return not missed


def _run(plugin: Path, suite: Suite, directory: Path, whose: str, arguments: Sequence[str]) -> Ran:
    # Not this project's root: its package `tests` would hide that of the suite.
    found = [ROOT / "src", ROOT / "projections", HERE / "upstreams", plugin.parent]
    if suite.source is not None:
        found.insert(0, directory / suite.source)
    with TemporaryDirectory(prefix="foldlog-upstream-") as data:
        report = Path(data, "report")
        variables = {
            "PYTHONPATH": os.pathsep.join([*map(str, found), os.environ.get("PYTHONPATH", "")]),
            "FOLDLOG_UPSTREAM": whose,
            "FOLDLOG_UPSTREAM_DATA": data,
            "FOLDLOG_UPSTREAM_PLUGIN": plugin.stem,
            "FOLDLOG_UPSTREAM_REPORT": str(report),
        }
        options = ("-p", "no:cacheprovider", "-q", "-rs", "-p", "standing_in", "-p", plugin.stem)
        code = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *arguments],
            cwd=directory,
            env={**os.environ, **variables},
        ).returncode
        told = json.loads(report.read_text("utf-8")) if report.exists() else [0, 0, []]
        return Ran(code, *told)


def _unpacked(distribution: str) -> Path:
    """Where the source archive of the installed version is unpacked, which pip downloads once."""
    release = f"{distribution}=={version(distribution)}"
    directory = ARCHIVES / release.replace("-", "_").replace("==", "-")
    if not directory.exists():
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        fetch = ["download", "--no-deps", "--no-binary", ":all:", "--dest", str(ARCHIVES), release]
        if subprocess.run([*pip, *fetch], stderr=subprocess.DEVNULL).returncode:
            raise Missing(f"pip could not download the source archive of {release}")
        with tarfile.open(f"{directory}.tar.gz") as archive:
            archive.extractall(ARCHIVES, filter="data")
    return directory


def main(*arguments: str) -> int:
    """Run one framework's suites, or all that are at hand; return 0 if all is well."""
    known = sorted(path.parent.name for path in HERE.glob("*/upstream.py"))
    named = [each for each in arguments[:1] if each in known]
    came = {each: run_framework(each, arguments[len(named) :]) for each in named or known}
    print(*(f"{framework}: {outcome}" for framework, outcome in came.items()), sep="\n")
    return int("FAILED" in came.values() or (bool(named) and "well" not in came.values()))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
