"""What a release holds: all that is in Git, nothing else, and the same wheel from either source."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT
from tests.packaging.conftest import build
from tests.packaging.support import PROJECT, PYTHONS, Distributions

pytestmark = pytest.mark.long  # a work tree may hold files that nobody means to release

PACKAGES = ("src/foldlog", "projections/foldlog_projections")
LEFT_OUT = (".ci/", ".github/")


@pytest.fixture(scope="module")
def tracked() -> set[str]:
    """The files that Git knows."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("this is no checkout")
    return {name for name in listed.stdout.split("\0") if ROOT.joinpath(name).is_file()}


def test_the_sdist_holds_what_git_has(distributions: Distributions, tracked: set[str]) -> None:
    with tarfile.open(distributions.sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert held == {n for n in tracked if not n.startswith(LEFT_OUT)} | {"PKG-INFO"}


def test_the_wheel_holds_the_packages(distributions: Distributions, tracked: set[str]) -> None:
    with zipfile.ZipFile(distributions.wheel) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    expected = {name.partition("/")[2] for name in tracked if name.startswith(PACKAGES)}
    assert held == expected
    assert {"foldlog/py.typed", "foldlog_projections/py.typed"} <= held


def test_the_sdist_gives_the_same_wheel(distributions: Distributions, tmp_path: Path) -> None:
    with tarfile.open(distributions.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    again = build(source, tmp_path / "dist")
    assert again.wheel.name == distributions.wheel.name
    assert again.wheel.read_bytes() == distributions.wheel.read_bytes()


def test_the_metadata_says_what_is_so(distributions: Distributions) -> None:
    with zipfile.ZipFile(distributions.wheel) as wheel:
        [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(wheel.read(name).decode())
    classified = [each.rpartition(" :: ")[2] for each in metadata.get_all("Classifier", [])]
    assert [each for each in classified if each.startswith("3.")] == list(PYTHONS)
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert set(metadata.get_all("Provides-Extra", [])) == set(
        PROJECT["project"]["optional-dependencies"]
    )
