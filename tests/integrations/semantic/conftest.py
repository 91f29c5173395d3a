"""Semantic search with the real embedder. Without it every module here is skipped, before it is
imported; where PenguiFlow is installed, in the environment of these tests, that is an error.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest


class NotInstalled(pytest.Module):
    """A module of tests that have nothing to test."""

    def collect(self) -> Any:
        if find_spec("penguiflow") is not None:
            pytest.fail("wordllama is missing here: constraints-integrations.txt must name it")
        pytest.skip("wordllama is not installed: make test-integrations installs and tests it")


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    if find_spec("wordllama") is not None:
        return None
    return NotInstalled.from_parent(parent, path=module_path)
