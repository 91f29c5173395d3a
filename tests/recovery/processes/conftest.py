"""Processes that run a pipeline on the test's data directory, and are killed.

The effects of its steps are lines of a file, so that what happened is counted where it happened.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.recovery import StateSnapshot
from tests.processes.conftest import Worker
from tests.recovery.processes.worker import OFFERS

StartWorker = Callable[..., Awaitable[Worker]]
Effects = Callable[[], list[str]]


@pytest.fixture
async def start_script(tmp_path: Path) -> AsyncIterator[StartWorker]:
    """Starts a script of this directory, as the only execution of the test's data directory."""
    workers: list[Worker] = []

    async def start(script: str, **options: Any) -> Worker:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).with_name(script)),
            str(tmp_path / "data"),
            "booking-1",
            str(tmp_path / "effects"),
            json.dumps(options),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )
        workers.append(Worker(process))
        return workers[-1]

    yield start
    for worker in workers:
        if worker.process.returncode is None:
            worker.kill()
        await worker.process.communicate()


@pytest.fixture
def start_worker(start_script: StartWorker) -> StartWorker:
    """Starts the pipeline of `worker.py`: search, pick, perhaps ask, pay."""
    return partial(start_script, "worker.py")


@pytest.fixture
def start_foreign(start_script: StartWorker) -> StartWorker:
    """Starts that of `foreign_worker.py`, an execution of another library."""
    return partial(start_script, "foreign_worker.py")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[foldlog.Store]:
    """What another process sees: this one."""
    async with foldlog.connect(path=tmp_path / "data") as store:
        yield store


@pytest.fixture
def effects(tmp_path: Path) -> Effects:
    """What really happened, in order."""
    return lambda: (tmp_path / "effects").read_text().split()


async def killed(worker: Worker, *where: str) -> None:
    """Kill a worker where it halts."""
    while await worker.hear() != list(where):
        pass
    worker.kill()
    await worker.process.wait()


async def ended(worker: Worker) -> list[Any]:
    """What a worker says last."""
    said = await worker.hear_rest()
    assert worker.process.returncode in (None, 0), await worker.complaint()
    return said[-1]


async def loaded(store: foldlog.Store) -> StateSnapshot:
    found = await store.recovery.load_state("booking-1")
    assert found is not None
    return found


def storage(snapshot: StateSnapshot) -> dict[str, Any]:
    data: dict[str, Any] = snapshot.execution_state["storage"]["data"]
    return data


def paid(answer: str = "unasked", fare: int = 100) -> list[Any]:
    """What an execution that came to its end says."""
    picked = {"seat": "12A", "fare": fare}
    return ["done", {"offers": len(OFFERS), "picked": picked, "paid": {"answer": answer}}]
