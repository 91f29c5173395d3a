"""The wheel and the sdist of this checkout, built once a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT
from tests.packaging.support import Distributions
from tests.support.workers import PATIENCE


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


def build(source: Path, target: Path) -> Distributions:
    """Build a tree's wheel and sdist, as `make build` does."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", target],
        cwd=source,
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    [wheel] = target.glob("*.whl")
    [sdist] = target.glob("*.tar.gz")
    return Distributions(wheel, sdist)
