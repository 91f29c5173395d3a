"""Processes that run a pipeline, and are killed.

The effects of its steps are lines of a file, so that what happened is counted where it happened.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.integrations.rh_agents import StateBackend, StateSnapshot
from tests.integrations.rh_agents.processes.worker import OFFERS
from tests.support.workers import StartWorker, Worker, starting

Effects = Callable[[], list[str]]
Execution = tuple[Path, str, str, Path]


@pytest.fixture
def execution(embedded_path: Path, namespace: str, tmp_path: Path) -> Execution:
    """The only one of its namespace: the arguments of a script that runs it."""
    return embedded_path, namespace, "booking-1", tmp_path / "effects"


@asynccontextmanager
async def starting_on(execution: Execution, script: str) -> AsyncIterator[StartWorker]:
    """What starts a script of this directory with options."""
    async with starting(Path(__file__).with_name(script), *execution) as start:
        yield lambda **options: start(json.dumps(options))


@pytest.fixture
async def start_worker(execution: Execution) -> AsyncIterator[StartWorker]:
    """Starts the pipeline of `worker.py`: search, pick, perhaps ask, pay."""
    async with starting_on(execution, "worker.py") as start:
        yield start


@pytest.fixture
async def start_foreign(execution: Execution) -> AsyncIterator[StartWorker]:
    """Starts that of `foreign_worker.py`, an execution of another library."""
    async with starting_on(execution, "foreign_worker.py") as start:
        yield start


@pytest.fixture
async def store(embedded_path: Path, namespace: str) -> AsyncIterator[foldlog.Store]:
    """What another process sees: this one."""
    async with foldlog.connect(path=embedded_path, namespace=namespace) as store:
        yield store


@pytest.fixture
def effects(tmp_path: Path) -> Effects:
    """What really happened, in order."""
    return lambda: (tmp_path / "effects").read_text().split()


async def killed(worker: Worker, *where: str) -> None:
    """Kill a worker where it halts."""
    while await worker.hear() != list(where):
        pass
    await worker.kill()


async def ended(worker: Worker) -> list[Any]:
    """What a worker says last."""
    said = await worker.hear_rest()
    assert worker.process.returncode in (None, 0), await worker.complaint()
    return said[-1]


async def loaded(store: foldlog.Store) -> StateSnapshot:
    found = await StateBackend(store).load_state("booking-1")
    assert found is not None
    return found


def storage(snapshot: StateSnapshot) -> dict[str, Any]:
    data: dict[str, Any] = snapshot.execution_state["storage"]["data"]
    return data


def paid(answer: str = "unasked", fare: int = 100) -> list[Any]:
    """What an execution that came to its end says."""
    picked = {"seat": "12A", "fare": fare}
    return ["done", {"offers": len(OFFERS), "picked": picked, "paid": {"answer": answer}}]
