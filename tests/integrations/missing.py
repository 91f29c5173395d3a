"""A directory's modules are skipped, before they are imported, where their package is missing."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

MakeModule = Callable[[Path, pytest.Collector], pytest.Module | None]


class NotInstalled(pytest.Module):
    """A module of tests that have nothing to test."""

    say: Callable[[], object]

    def collect(self) -> Any:
        self.say()
        return []


def only_with(package: str, say: Callable[[], object]) -> MakeModule:
    """A conftest's `pytest_pycollect_makemodule`; without `package` it has `say` skip or fail."""

    def make_module(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
        if is_installed(package):
            return None
        module: NotInstalled = NotInstalled.from_parent(parent, path=module_path)
        module.say = say
        return module

    return make_module


def is_installed(package: str) -> bool:
    """Whether a package, or one inside a namespace such as google.adk, can be imported."""
    outer, _, _ = package.rpartition(".")
    return (not outer or is_installed(outer)) and find_spec(package) is not None


def make_has_it(name: str) -> Callable[[], object]:
    """Skips, and says which target installs what is missing."""
    return lambda: pytest.skip(
        f"{name} is not installed: make test-integrations installs and tests it"
    )
