"""AutoGen over fresh data on a real embedded server, and in other processes.

Without AutoGen every module here is skipped, before it is imported.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import foldlog
from tests.processes.conftest import Worker
from tests.support.stores import fresh_namespace

WORKER = Path(__file__).with_name("worker.py")

StartWorker = Callable[..., Awaitable[Worker]]


class NotInstalled(pytest.Module):
    """A module of tests that have nothing to test."""

    def collect(self) -> Any:
        pytest.skip("AutoGen is not installed: make test-integrations installs and tests it")


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    if find_spec("autogen_core") is not None:
        return None
    return NotInstalled.from_parent(parent, path=module_path)


@pytest.fixture
def namespace() -> str:
    """Whose data a test works on."""
    return fresh_namespace()


@pytest.fixture
async def store(embedded_path: Path, namespace: str) -> AsyncIterator[foldlog.Store]:
    """A store over empty data."""
    async with foldlog.connect(path=embedded_path, namespace=namespace) as store:
        yield store


@pytest.fixture
async def start_worker(embedded_path: Path, namespace: str) -> AsyncIterator[StartWorker]:
    """Starts a worker on the test's data; its options are named in `worker.py`."""
    workers: list[Worker] = []

    async def start(what: str, run_id: str, **options: Any) -> Worker:
        arguments = [str(embedded_path), namespace, what, run_id, json.dumps(options)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(WORKER), *arguments),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={name: value for name, value in os.environ.items() if name != "FOLDLOG_URL"},
        )
        workers.append(Worker(process))
        return workers[-1]

    yield start
    for worker in workers:
        if worker.process.returncode is None:
            worker.kill()
        await worker.process.communicate()
