"""Planner events beyond `test_kit`: strong reads."""

from __future__ import annotations

import asyncio

import foldlog
from tests.conftest import OpenStore
from tests.support.build import planner_event


async def test_saving_an_event_twice_keeps_one(store: foldlog.Store, reopen: OpenStore) -> None:
    other = await reopen()
    saves = (
        s.save_planner_event("trace", planner_event()) for _ in range(8) for s in (store, other)
    )
    await asyncio.gather(*saves)
    await (await reopen()).save_planner_event("trace", planner_event())
    assert await store.list_planner_events("trace", consistency="strong") == [planner_event()]


async def test_concurrent_writers_lose_nothing(store: foldlog.Store, reopen: OpenStore) -> None:
    other = await reopen()
    events = [planner_event(float(i)) for i in range(100)]
    saves = ((store, other)[i % 2].save_planner_event("t", e) for i, e in enumerate(events))
    await asyncio.gather(*saves)
    listed = await store.list_planner_events("t", consistency="strong")
    assert sorted(listed, key=lambda e: e.ts) == events
    assert await other.list_planner_events("t", consistency="strong") == listed
