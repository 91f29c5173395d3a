"""Adapters over fresh data on a real embedded server, and PenguiFlow in other processes.

Without PenguiFlow every module here is skipped, before it is imported.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from foldlog.integrations.penguiflow import PenguiFlowStateStore
from tests.support.stores import fresh_namespace

WORKER = Path(__file__).with_name("worker.py")
PATIENCE = 60  # seconds until a process that says nothing is called hung

OpenStore = Callable[..., PenguiFlowStateStore]
StartWorker = Callable[..., Awaitable["Worker"]]


class NotInstalled(pytest.Module):
    """A module of tests that have nothing to test."""

    def collect(self) -> Any:
        pytest.skip("PenguiFlow is not installed: make test-integrations installs and tests it")


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    if find_spec("penguiflow") is not None:
        return None
    return NotInstalled.from_parent(parent, path=module_path)


@pytest.fixture(autouse=True)
async def penguiflows_own_tasks(no_leaked_tasks: None) -> AsyncIterator[None]:
    """Let what PenguiFlow starts and never awaits, saves for instance, come to its end."""
    before = asyncio.all_tasks()
    yield
    while left := asyncio.all_tasks() - before - {asyncio.current_task()}:
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait(left)


@pytest.fixture(autouse=True)
def own_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The spool of the test, and of the processes that it starts."""
    monkeypatch.setenv("FOLDLOG_SPOOL", str(tmp_path / "spool"))
    return tmp_path / "spool"


@pytest.fixture
def namespace() -> str:
    """Whose data a test works on."""
    return fresh_namespace()


@pytest.fixture
async def open_store(embedded_path: Path, namespace: str) -> AsyncIterator[OpenStore]:
    """Another adapter on the test's data, with the options given; all are closed afterwards."""
    opened: list[PenguiFlowStateStore] = []

    def open_(**options: Any) -> PenguiFlowStateStore:
        options = {"path": embedded_path, "namespace": namespace, "on_error": "raise"} | options
        opened.append(PenguiFlowStateStore(**options))
        return opened[-1]

    yield open_
    for store in opened:
        await store.close()


@pytest.fixture
def store(open_store: OpenStore) -> PenguiFlowStateStore:
    """An adapter over empty data."""
    return open_store()


class Worker:
    """A running `worker.py`."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def hear(self) -> Any:
        """The next value it says."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await self._process.stdout.readline()
        assert line, await self._complaint()
        return json.loads(line)

    async def finish(self) -> None:
        """Wait for its clean end."""
        async with asyncio.timeout(PATIENCE):
            code = await self._process.wait()
        assert code == 0, await self._complaint()

    async def kill(self) -> None:
        """SIGKILL: nothing in the worker runs after this."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.communicate()

    async def _complaint(self) -> str:
        assert self._process.stderr is not None
        return (await self._process.stderr.read()).decode()


@pytest.fixture
async def start_worker(embedded_path: Path, namespace: str) -> AsyncIterator[StartWorker]:
    """Starts a worker on the test's data."""
    workers: list[Worker] = []

    async def start(*arguments: str) -> Worker:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(WORKER), str(embedded_path), namespace, *arguments),
            stdout=PIPE,
            stderr=PIPE,
            env={name: value for name, value in os.environ.items() if name != "FOLDLOG_URL"},
        )
        workers.append(Worker(process))
        return workers[-1]

    yield start
    for worker in workers:
        await worker.kill()
