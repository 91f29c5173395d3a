"""Runs frameworks' own tests on foldlog, where their checkouts lie. It holds none of their code.

A suite runs in its own directory, with a plugin that puts foldlog's classes in place of the
framework's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).parents[2]
UPSTREAMS: Final = Path(__file__).with_name("upstreams")
"""What the plugins share."""


def run_pytest(
    directory: Path,
    *arguments: str,
    plugin: Path | None = None,
    paths: Iterable[Path] = (),
    variables: Mapping[str, str] | None = None,
) -> int:
    """Run pytest in a directory; return what it returns.

    Args:
        plugin: a module to load before any test is imported.
        paths: directories to import from, before foldlog's.
        variables: of the environment.
    """
    # Not this project's root: its package `tests` would hide that of the suite.
    found = [*paths, ROOT / "src", ROOT / "projections", UPSTREAMS]
    loaded: tuple[str, ...] = ()
    if plugin is not None:
        found.append(plugin.parent)
        loaded = ("-p", plugin.stem)
    path = os.pathsep.join([*map(str, found), os.environ.get("PYTHONPATH", "")])
    with TemporaryDirectory(prefix="foldlog-upstream-") as data:
        given = {"FOLDLOG_UPSTREAM_DATA": data, "PYTHONPATH": path}
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *loaded, *arguments],
            cwd=directory,
            env={**os.environ, **(variables or {}), **given},
        ).returncode
