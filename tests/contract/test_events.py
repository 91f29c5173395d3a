"""Runtime events: bulk saves, and several stores reading strongly. The rest: `test_kit`."""

from __future__ import annotations

import asyncio

import pytest

import foldlog
from tests.conftest import OpenStore
from tests.support.build import event
from tests.support.stores import appended


async def test_concurrent_saves_of_one_event_keep_one(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    saves = (s.save_event(event(payload={"n": 1})) for _ in range(32) for s in (store, other))
    await asyncio.gather(*saves)
    for reader in (store, other, await reopen()):
        history = await reader.load_history("trace", consistency="strong")
        assert history == [event(payload={"n": 1})]


async def test_concurrent_writers_lose_nothing(store: foldlog.Store, reopen: OpenStore) -> None:
    other = await reopen()
    events = [event(ts=float(i), node_name=f"n{i}") for i in range(200)]
    await asyncio.gather(*((store, other)[i % 2].save_event(e) for i, e in enumerate(events)))
    for reader in (store, other):
        assert await reader.load_history("trace", consistency="strong") == events


async def test_an_event_without_a_trace_is_kept_without_one(store: foldlog.Store) -> None:
    await store.save_event(event(None, 1.0))
    await store.save_event(event("__global__", 2.0))
    history = await store.load_history("__global__")
    assert [e.trace_id for e in history] == [None, "__global__"]


async def test_equal_events_with_and_without_the_global_trace_are_different(
    store: foldlog.Store,
) -> None:
    await store.save_event(event(None))
    await store.save_event(event("__global__"))
    assert await store.load_history("__global__") == [event(None), event("__global__")]


async def test_bulk_saves_in_order_and_once(store: foldlog.Store) -> None:
    save = store.save_events
    events = [event(f"trace-{i % 3}", 1.0, node_name=f"n{i}") for i in range(30)]
    await store.save_event(events[4])
    await save([])
    await save(events)
    await save(events[10:])
    for i in range(3):
        # Event 4 was saved before the others of its trace, so it comes first in the log.
        expected = sorted(events[i::3], key=lambda e: e is not events[4])
        assert await store.load_history(f"trace-{i}") == expected


async def test_a_bulk_save_larger_than_any_batch(store: foldlog.Store, reopen: OpenStore) -> None:
    events = [event(ts=1.0, node_name=f"n{i}", payload={"i": i}) for i in range(2_500)]
    await store.save_events(events)
    assert await store.load_history("trace") == events
    assert await (await reopen()).load_history("trace") == events


async def test_a_bulk_save_with_one_bad_event_appends_none(store: foldlog.Store) -> None:
    before = await appended(store)
    with pytest.raises(foldlog.PayloadError):
        await store.save_events([event(ts=1.0), event(ts=2.0, payload={"bad": object()})])
    assert await store.load_history("trace") == []
    assert await appended(store) == before
