"""Fixtures for the tests of an adapter: fresh data on an embedded server, and other processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import foldlog
from tests.support.workers import StartWorker, starting


@pytest.fixture
async def store(embedded_path: Path, namespace: str) -> AsyncIterator[foldlog.Store]:
    """A store over empty data."""
    async with foldlog.connect(path=embedded_path, namespace=namespace) as store:
        yield store


@pytest.fixture
async def start_worker(
    request: pytest.FixtureRequest, embedded_path: Path, namespace: str
) -> AsyncIterator[StartWorker]:
    """Starts a worker on the test's data; what it does is named in `worker.py` beside the test."""
    worker = request.path.with_name("worker.py")
    async with starting(worker, embedded_path, namespace) as start:
        yield start
