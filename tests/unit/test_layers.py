"""Every part of the package stands on a floor, so that no import escapes the contract on them."""

from __future__ import annotations

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
