"""Agents in several processes: races, and shares that are redeemed elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import foldlog
from tests.agents.worker import Count
from tests.support.workers import StartWorker, starting

SCRIPT = Path(__file__).with_name("worker.py")


@pytest.fixture
async def store(embedded_path: Path, namespace: str) -> AsyncIterator[foldlog.Store]:
    async with foldlog.connect(path=embedded_path, namespace=namespace) as store:
        yield store


@pytest.fixture
async def start_worker(embedded_path: Path, namespace: str) -> AsyncIterator[StartWorker]:
    """Starts `worker.py` on the test's data."""
    async with starting(SCRIPT, embedded_path, namespace) as start:
        yield start


async def put(store: foldlog.Store, n: int) -> None:
    async with store.agents.turn("shop/1") as ctx:
        ctx.update("count", Count(n=n))


async def test_two_processes_in_a_race_lose_no_increment(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    workers = [await start_worker("count", "shop/1", "100") for _ in range(2)]
    for worker in workers:
        assert await worker.hear() == ["read"]  # both have read the same, before either writes
    for worker in workers:
        worker.tell()
    conflicts = sum([(await worker.hear())[1] for worker in workers])
    entry = await store.agents.get_agent_state("shop/1", "count", Count, consistency="strong")
    assert entry is not None
    assert entry.state.n == 200
    assert len(await store.agents.history("shop/1")) == 200
    assert conflicts > 0


async def test_a_token_redeemed_elsewhere_is_never_stale_at_strong(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    await put(store, 0)
    async with store.agents.turn("shop/1") as ctx:
        token = ctx.share("count")
    worker = await start_worker("redeem", token)
    assert await worker.hear() == ["ready"]
    for n in range(1, 30):
        await put(store, n)
        worker.tell()
        assert await worker.hear() == ["read", n]
    await store.agents.revoke(token)
    worker.tell()
    assert await worker.hear() == ["refused"]


async def test_what_is_cached_elsewhere_is_renewed_by_messages(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    await put(store, 1)
    async with store.agents.turn("shop/1") as ctx:
        token = ctx.share("count")
    worker = await start_worker("follow", token)
    for n in (1, 2, 3, -1):
        if n != 1:
            await put(store, n)
        assert await worker.hear() == ["saw", n]
