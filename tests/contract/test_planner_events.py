"""Planner events: append-only, in the order they were emitted."""

from __future__ import annotations

import asyncio

import foldlog
from tests.conftest import OpenStore
from tests.support.build import event, planner_event
from tests.support.exact import same


async def test_a_planner_event_comes_back_as_it_was(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    saved = foldlog.PlannerEvent(
        event_type="llm_stream_chunk",
        ts=1702857600.25,
        trajectory_step=3,
        thought="hm",
        node_name="tool",
        latency_ms=1.5,
        token_estimate=12,
        error="none",
        extra={"chunk": b"\x00", "nan": float("nan"), "message": "kept", "args": (1,)},
    )
    await store.save_planner_event("trace", saved)
    for reader in (store, await reopen()):
        [loaded] = await reader.list_planner_events("trace")
        assert same(dict(loaded.extra), dict(saved.extra))
        for field in ("event_type", "ts", "trajectory_step", "thought", "node_name"):
            assert getattr(loaded, field) == getattr(saved, field)
        for field in ("latency_ms", "token_estimate", "error"):
            assert getattr(loaded, field) == getattr(saved, field)


async def test_an_unknown_trace_has_no_planner_events(store: foldlog.Store) -> None:
    assert await store.list_planner_events("nonexistent") == []


async def test_events_keep_the_order_of_emission(store: foldlog.Store, reopen: OpenStore) -> None:
    events = [planner_event(ts, event_type="step") for ts in (3.0, 1.0, 2.0, 1.5)]
    for each in events:
        await store.save_planner_event("trace", each)
    assert await store.list_planner_events("trace") == events
    assert await (await reopen()).list_planner_events("trace") == events


async def test_saving_an_event_twice_keeps_one(store: foldlog.Store, reopen: OpenStore) -> None:
    other = await reopen()
    saves = (
        s.save_planner_event("trace", planner_event()) for _ in range(8) for s in (store, other)
    )
    await asyncio.gather(*saves)
    await (await reopen()).save_planner_event("trace", planner_event())
    assert await store.list_planner_events("trace", consistency="strong") == [planner_event()]


async def test_events_that_differ_in_any_field_are_different(store: foldlog.Store) -> None:
    variants = [
        planner_event(),
        planner_event(2.0),
        planner_event(event_type="stream_chunk"),
        planner_event(trajectory_step=1),
        planner_event(thought=""),
        planner_event(node_name="n"),
        planner_event(latency_ms=0.0),
        planner_event(token_estimate=0),
        planner_event(error=""),
        planner_event(extra={"seq": 1}),
        planner_event(extra={"seq": 1.0}),
    ]
    for each in variants:
        await store.save_planner_event("trace", each)
    assert await store.list_planner_events("trace") == variants


async def test_planner_events_are_no_runtime_events(store: foldlog.Store) -> None:
    await store.save_planner_event("trace", planner_event())
    assert await store.load_history("trace") == []
    await store.save_event(event())
    assert await store.list_planner_events("trace") == [planner_event()]
    assert await store.load_history("trace") == [event()]


async def test_the_names_of_earlier_releases_work(store: foldlog.Store) -> None:
    await store.save_event("trace", planner_event(1.0))
    await store.save_planner_event("trace", planner_event(2.0))
    expected = [planner_event(1.0), planner_event(2.0)]
    assert await store.get_events("trace") == expected
    assert await store.list_planner_events("trace") == expected
    assert await store.load_history("trace") == []


async def test_concurrent_writers_lose_nothing(store: foldlog.Store, reopen: OpenStore) -> None:
    other = await reopen()
    events = [planner_event(float(i)) for i in range(100)]
    saves = ((store, other)[i % 2].save_planner_event("t", e) for i, e in enumerate(events))
    await asyncio.gather(*saves)
    listed = await store.list_planner_events("t", consistency="strong")
    assert sorted(listed, key=lambda e: e.ts) == events
    assert await other.list_planner_events("t", consistency="strong") == listed


async def test_planner_events_belong_to_the_caller(store: foldlog.Store) -> None:
    extra = {"l": [1]}
    await store.save_planner_event("trace", planner_event(extra=extra))
    extra["l"].append(2)
    for _ in range(2):
        listed = await store.list_planner_events("trace")
        assert listed == [planner_event(extra={"l": [1]})]
        listed[0].extra["l"].append(3)
        listed.clear()
