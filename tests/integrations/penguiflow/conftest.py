"""Adapters over fresh data on a real embedded server, and PenguiFlow in other processes.

Without PenguiFlow every module here is skipped, before it is imported.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from foldlog.integrations.penguiflow import PenguiFlowStateStore
from tests.integrations.missing import make_has_it, only_with
from tests.support.workers import PATIENCE, StartWorker, starting

WORKER = Path(__file__).with_name("worker.py")

OpenStore = Callable[..., PenguiFlowStateStore]

pytest_pycollect_makemodule = only_with("penguiflow", make_has_it("PenguiFlow"))


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


@pytest.fixture
async def start_worker(embedded_path: Path, namespace: str) -> AsyncIterator[StartWorker]:
    """Starts a worker on the test's data."""
    async with starting(WORKER, embedded_path, namespace) as start:
        yield start
