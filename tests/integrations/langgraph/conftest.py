"""LangGraph over stores in memory. Without it every module here is skipped."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import foldlog
from tests.integrations.missing import make_has_it, only_with

pytest_pycollect_makemodule = only_with("langgraph", make_has_it("LangGraph"))


@pytest.fixture
async def log() -> AsyncIterator[foldlog.Store]:
    """A store over empty data."""
    async with foldlog.memory_store() as store:
        yield store
