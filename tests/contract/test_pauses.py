"""Planner pauses: saved by token, resumed by exactly one caller."""

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


async def test_a_pause_comes_back_once(store: foldlog.Store) -> None:
    await store.save_planner_state("token", PAUSE)
    assert await store.load_planner_state("token") == PAUSE
    assert await store.load_planner_state("token") is None


async def test_an_unknown_token_is_none(store: foldlog.Store) -> None:
    assert await store.load_planner_state("nonexistent") is None


async def test_an_empty_pause_is_not_a_missing_one(store: foldlog.Store) -> None:
    await store.save_planner_state("token", {})
    assert await store.load_planner_state("token") == {}
    assert await store.load_planner_state("token") is None


async def test_a_pause_is_resumed_by_another_store(store: foldlog.Store, reopen: OpenStore) -> None:
    await store.save_planner_state("token", PAUSE)
    other = await reopen()
    assert await other.load_planner_state("token") == PAUSE
    assert await store.load_planner_state("token") is None


async def test_a_pause_saved_again_is_one_pause(store: foldlog.Store) -> None:
    for _ in range(3):
        await store.save_planner_state("token", PAUSE)
    assert await store.load_planner_state("token") == PAUSE
    assert await store.load_planner_state("token") is None


async def test_a_pause_is_replaced_until_it_is_resumed(store: foldlog.Store) -> None:
    await store.save_planner_state("token", {"n": 1})
    await store.save_planner_state("token", {"n": 2})
    assert await store.load_planner_state("token") == {"n": 2}
    assert await store.load_planner_state("token") is None


async def test_tokens_do_not_see_each_other(store: foldlog.Store) -> None:
    await store.save_planner_state("a", {"n": 1})
    await store.save_planner_state("b", {"n": 2})
    assert await store.load_planner_state("a") == {"n": 1}
    assert await store.load_planner_state("b") == {"n": 2}


async def test_exactly_one_of_many_callers_resumes(store: foldlog.Store, reopen: OpenStore) -> None:
    stores = [store, await reopen(), await reopen()]
    for round_ in range(5):
        token = f"token-{round_}"
        await store.save_planner_state(token, PAUSE)
        loads = (stores[i % 3].load_planner_state(token) for i in range(48))
        results = await asyncio.gather(*loads)
        assert [r for r in results if r is not None] == [PAUSE]


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


async def test_a_pause_belongs_to_the_caller(store: foldlog.Store) -> None:
    payload = {"steps": [1]}
    await store.save_planner_state("token", payload)
    payload["steps"].append(2)
    assert await store.load_planner_state("token") == {"steps": [1]}
