"""Long sessions: opened again in another process, cleared, rebuilt; the same on every backend."""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest

import foldlog
from foldlog.models import StateUpdate, UpdateType
from foldlog.opening import memory_store
from foldlog.subjects import Subject
from foldlog.views import snapshots as snapshots_module
from tests.conftest import OpenStore

COUNT = 1500


@pytest.fixture(autouse=True)
def patient_closing(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine, the snapshot is written before the store is closed."""
    monkeypatch.setattr(snapshots_module, "CLOSING_SECONDS", 30.0)


def update(n: int) -> StateUpdate:
    return StateUpdate(
        session_id="s",
        task_id=f"t{n % 3}",
        update_id=f"u{n:05}",
        update_type=UpdateType.PROGRESS,
        content={"n": n},
        created_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    )


async def saved(reopen: OpenStore) -> None:
    """Save a session that is long enough for a snapshot, and have one written."""
    writer = await reopen()
    for first in range(0, COUNT, 500):
        await asyncio.gather(*(writer.save_update(update(n)) for n in range(first, first + 500)))
    assert len(await writer.list_updates("s", limit=2)) == 2
    await writer.close()


def numbers(updates: list[StateUpdate]) -> list[int]:
    return [item.content["n"] for item in updates]


async def covered(store: foldlog.Store) -> bool:
    snapshots = store._core.hot_views.snapshots
    assert snapshots is not None
    return await snapshots.store.get(subject(store), "updates") is not None


def subject(store: foldlog.Store) -> Subject:
    return store._core.log.namespace.subject("updates", "s")


async def test_a_long_session_is_the_same_when_it_is_opened_again(reopen: OpenStore) -> None:
    await saved(reopen)
    store = await reopen()
    assert await covered(store)
    everything = sorted(numbers(await store.list_updates("s", limit=COUNT + 1)))
    assert everything == list(range(COUNT))
    store = await reopen()
    latest = await store.list_updates("s", limit=5)
    assert await store.list_updates("s", since_id=latest[-1].update_id) == []
    await store.save_update(latest[2])  # a repeat
    await store.save_update(update(COUNT))
    assert numbers(await store.list_updates("s", since_id=latest[-1].update_id)) == [COUNT]
    paged: list[StateUpdate] = await store.list_updates("s", limit=COUNT + 1, task_id="t1")
    assert sorted(numbers(paged)) == list(range(1, COUNT, 3))
    again = await store.list_updates("s", since_id=paged[10].update_id, task_id="t1", limit=7)
    assert again == paged[11:18]


async def test_a_cleared_session_has_what_was_saved_since(reopen: OpenStore) -> None:
    await saved(reopen)
    store = await reopen()
    await store.clear_session("s")
    assert not await covered(store)
    await store.save_update(update(3))
    await store.save_update(update(COUNT))
    store = await reopen()
    assert numbers(await store.list_updates("s")) == [3, COUNT]


async def test_clearing_everything_takes_the_snapshots_along(reopen: OpenStore) -> None:
    await saved(reopen)
    store = await reopen()
    await store.clear(store.log.namespace.name)
    assert not await covered(store)
    await store.save_update(update(3))
    assert numbers(await (await reopen()).list_updates("s")) == [3]


async def test_a_rebuild_folds_the_log_and_replaces_the_snapshot(reopen: OpenStore) -> None:
    await saved(reopen)
    store = await reopen()
    await store.list_updates("s", limit=1)
    report = await store.rebuild("updates")
    assert (report.envelopes, report.differing) == (COUNT, ())
    assert await covered(store)
    assert len(await store.list_updates("s", limit=COUNT)) == COUNT


async def test_history_reads_what_no_page_of_the_feed_has_read(reopen: OpenStore) -> None:
    await saved(reopen)
    store = await reopen()
    await store.list_updates("s", limit=1)
    history = await store.load_history("session:s")
    assert sorted(event.payload["content"]["n"] for event in history) == list(range(COUNT))


@pytest.mark.parametrize("wrong", ["1", -1, True, 1.5])
def test_max_hot_bytes_is_a_number_of_bytes(wrong: object) -> None:
    with pytest.raises(foldlog.ConfigurationError, match="max_hot_bytes"):
        memory_store(max_hot_bytes=wrong)  # type: ignore[arg-type]  # that is the point


async def test_max_hot_bytes_bounds_what_is_hot(reopen: OpenStore) -> None:
    store = await reopen(max_hot_bytes=20_000)
    for n in range(50):
        await store.list_updates(f"s{n}")
    assert (await store.health()).hot_views < 10
