"""Planner pauses beyond `test_kit`: retries from several stores, and `pause_ttl`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import foldlog
from tests.conftest import OpenStore

PAUSE = {
    "trajectory": {"version": 1, "steps": []},
    "reason": "await_input",
    "payload": {"example": True, "raw": b"\x00", "count": 10**25, "pair": (1, 2)},
    "constraints": None,
    "tool_context": {"tenant_id": "test", "user_id": "test"},
}


async def test_a_late_retry_does_not_revive_a_resumed_pause(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    await store.save_planner_state("token", {"n": 1})
    await store.save_planner_state("token", PAUSE)
    assert await other.load_planner_state("token") == PAUSE
    for retrying in (store, other, await reopen()):
        await retrying.save_planner_state("token", {"n": 1})
        await retrying.save_planner_state("token", PAUSE)
        assert await retrying.load_planner_state("token") is None


async def test_retries_racing_with_resumes_still_give_one_winner(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    await store.save_planner_state("token", PAUSE)
    results = await asyncio.gather(
        *(s.save_planner_state("token", PAUSE) for _ in range(10) for s in (store, other)),
        *(s.load_planner_state("token") for _ in range(10) for s in (store, other)),
    )
    results.append(await store.load_planner_state("token"))
    assert [r for r in results if r is not None] == [PAUSE]


async def test_an_expired_pause_is_none(reopen: OpenStore) -> None:
    store = await reopen(pause_ttl=1e-6)
    await store.save_planner_state("token", PAUSE)
    assert await store.load_planner_state("token") is None
    assert await (await reopen()).load_planner_state("token") is None


async def test_a_pause_lives_as_long_as_its_ttl_says(
    reopen: OpenStore, advance_clock: Callable[[float], None]
) -> None:
    store = await reopen(pause_ttl=100.0)
    await store.save_planner_state("early", PAUSE)
    await store.save_planner_state("late", PAUSE)
    advance_clock(50.0)
    assert await store.load_planner_state("early") == PAUSE
    advance_clock(51.0)
    assert await store.load_planner_state("late") is None
