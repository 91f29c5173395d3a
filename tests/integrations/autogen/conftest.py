"""AutoGen over fresh data on a real embedded server, and in other processes.

Without AutoGen every module here is skipped, before it is imported.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import foldlog
from tests.integrations.missing import make_has_it, only_with
from tests.support.workers import StartWorker, Worker, starting

WORKER = Path(__file__).with_name("worker.py")

pytest_pycollect_makemodule = only_with("autogen_core", make_has_it("AutoGen"))


@pytest.fixture
async def store(embedded_path: Path, namespace: str) -> AsyncIterator[foldlog.Store]:
    """A store over empty data."""
    async with foldlog.connect(path=embedded_path, namespace=namespace) as store:
        yield store


@pytest.fixture
async def start_worker(embedded_path: Path, namespace: str) -> AsyncIterator[StartWorker]:
    """Starts a worker on the test's data; its options are named in `worker.py`."""
    async with starting(WORKER, embedded_path, namespace) as start:

        async def start_with(what: str, run_id: str, **options: Any) -> Worker:
            return await start(what, run_id, json.dumps(options))

        yield start_with
