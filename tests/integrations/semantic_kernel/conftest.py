"""Semantic Kernel over a store in memory. Without it every module here is skipped.

It wants an older pydantic than the other frameworks' tests run with, so that it is not among the
packages of `make test-integrations`: these tests run where somebody has installed it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import foldlog


class NotInstalled(pytest.Module):
    """A module of tests that have nothing to test."""

    def collect(self) -> Any:
        pytest.skip("Semantic Kernel is not installed: pip install 'semantic-kernel>=1.30,<2'")


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    if find_spec("semantic_kernel") is not None:
        return None
    return NotInstalled.from_parent(parent, path=module_path)


@pytest.fixture
async def store() -> AsyncIterator[foldlog.Store]:
    """A store over empty data."""
    async with foldlog.memory_store() as store:
        yield store
