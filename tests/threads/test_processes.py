"""Two processes write to one thread, and are killed at any moment."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import foldlog
from tests.support.workers import StartWorker, Worker, starting
from tests.threads.support import FORMS, ROOT, threads

WORKER = Path(__file__).with_name("worker.py")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[foldlog.Store]:
    async with foldlog.connect(path=tmp_path) as store:
        yield store


@pytest.fixture
async def start_worker(store: foldlog.Store, tmp_path: Path) -> AsyncIterator[StartWorker]:
    async with starting(WORKER, tmp_path) as start:
        yield start


@pytest.mark.parametrize("rounds", [40, pytest.param(1000, marks=pytest.mark.long)])
async def test_writers_that_hold_the_thread_lose_and_interleave_no_step(
    store: foldlog.Store, start_worker: StartWorker, rounds: int
) -> None:
    """Every step that a writer was told of is there, in one chain, each from the one before it."""
    seed = random.randrange(2**32)
    chance, names = random.Random(seed), iter(range(1, 2 * rounds))
    acked: dict[int, str] = {}
    enough = asyncio.Event()

    async def hear(name: str, worker: Worker, until: int) -> None:
        heard = 0
        try:
            while not enough.is_set() and heard < until:
                _, number = await worker.hear()
                heard += 1
                assert acked.setdefault(number, name) == name, f"two saved step {number}, {seed=}"
                if len(acked) >= rounds:
                    enough.set()
        finally:
            await worker.kill()
        for _, number in await worker.hear_rest():
            assert acked.setdefault(number, name) == name, f"two saved step {number}, {seed=}"

    async def writers() -> None:
        while not enough.is_set():
            name = f"writer-{next(names)}"
            await hear(name, await start_worker(name, "steps"), chance.randrange(5, 40))

    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(writers())
    one = threads(store)
    rows = await one.rows({"configurable": {"thread_id": "trip"}}, None, None, None)
    by = {}
    for before, (_, row) in zip([*rows[1:], None], rows, strict=True):
        number = int(row.checkpoint.id)
        by[number] = FORMS.untyped(row.checkpoint.metadata)["by"]
        messages = FORMS.value(row.values["messages"])
        assert len(messages) == number
        assert messages[-1] == f"{by[number]} {number}"
        if before is None:
            assert (number, row.checkpoint.parent) == (1, None)
        else:
            assert row.checkpoint.parent == before[1].checkpoint.id == f"{number - 1:04}"
            assert messages[:-1] == FORMS.value(before[1].values["messages"])
        if number in acked:
            assert [each.task for each in row.writes] == [by[number]]
    assert acked.items() <= by.items(), f"{seed=}"
    latest = await one.get(ROOT)
    assert latest is not None
    assert int(latest.checkpoint.id) == len(by) >= rounds


async def test_a_thread_that_another_process_deleted_stays_deleted(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    worker = await start_worker("late", "late")
    assert await worker.hear() == ["put"]
    await threads(store).delete("trip")
    worker.tell()
    assert await worker.hear_rest() == [["gone", "trip"], ["gone", "trip"]]
    assert await threads(store).rows(None, None, None, None) == []
    assert await store.sessions() == []
