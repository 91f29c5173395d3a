"""Semantic Kernel over a store in memory. Without it every module here is skipped.

It wants an older pydantic than the other frameworks' tests run with, so that it is not among the
packages of `make test-integrations`: these tests run where somebody has installed it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import foldlog
from tests.integrations.missing import only_with

pytest_pycollect_makemodule = only_with(
    "semantic_kernel",
    lambda: pytest.skip("Semantic Kernel is not installed: pip install 'semantic-kernel>=1.30,<2'"),
)


@pytest.fixture
async def store() -> AsyncIterator[foldlog.Store]:
    """A store over empty data."""
    async with foldlog.memory_store() as store:
        yield store
