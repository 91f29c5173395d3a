"""Starts workers, and sees to it that none survives its test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.workers import StartWorker, starting


@pytest.fixture
async def start_worker(tmp_path: Path) -> AsyncIterator[StartWorker]:
    """Starts a worker on the test's data directory, `tmp_path / "data"`."""
    async with starting(Path(__file__).with_name("worker.py"), tmp_path / "data") as start:
        yield start
