"""Short-term memory: the last state saved under a key."""

from __future__ import annotations

import asyncio
from typing import Any

import foldlog
from tests.conftest import OpenStore
from tests.support.exact import same

STATE: dict[str, Any] = {
    "version": 1,
    "health": "healthy",
    "summary": "",
    "turns": [{"user_message": "hi", "assistant_response": None, "ts": 1702857600.25}],
    "pending": [],
    "backlog": [{"raw": b"\xff", "nan": float("nan")}],
    "config_snapshot": {"budget": 10**20, "ratio": -0.0},
}


async def test_memory_comes_back_as_it_was(store: foldlog.Store, reopen: OpenStore) -> None:
    await store.save_memory_state("tenant:user:session", STATE)
    assert same(await store.load_memory_state("tenant:user:session"), STATE)
    assert same(await (await reopen()).load_memory_state("tenant:user:session"), STATE)


async def test_an_unknown_key_is_none(store: foldlog.Store) -> None:
    assert await store.load_memory_state("nonexistent:key") is None


async def test_empty_memory_is_not_missing_memory(store: foldlog.Store) -> None:
    await store.save_memory_state("key", {})
    assert await store.load_memory_state("key") == {}


async def test_the_last_save_wins_even_when_it_repeats_an_earlier_one(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    for n in (1, 2, 1, 1, 3, 1):
        await store.save_memory_state("key", {"n": n})
        assert await store.load_memory_state("key") == {"n": n}
    assert await (await reopen()).load_memory_state("key") == {"n": 1}


async def test_reading_does_not_consume(store: foldlog.Store) -> None:
    await store.save_memory_state("key", {"n": 1})
    for _ in range(3):
        assert await store.load_memory_state("key") == {"n": 1}


async def test_keys_that_look_alike_are_different(store: foldlog.Store) -> None:
    keys = ["a:b:c", "a:b:c:", "a:b", "a::b:c", "A:b:c", "a.b.c", "a:b:c "]
    for key in keys:
        await store.save_memory_state(key, {"key": key})
    assert [await store.load_memory_state(key) for key in keys] == [{"key": key} for key in keys]


async def test_concurrent_writers_leave_one_of_their_states(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    writes = ((store, other)[i % 2].save_memory_state("key", {"n": i}) for i in range(40))
    await asyncio.gather(*writes)
    seen = [
        await reader.load_memory_state("key", consistency="strong")
        for reader in (store, other, await reopen())
    ]
    assert seen[0] in [{"n": i} for i in range(40)]
    assert seen == [seen[0]] * 3


async def test_memory_belongs_to_the_caller(store: foldlog.Store) -> None:
    state = {"turns": [1]}
    await store.save_memory_state("key", state)
    state["turns"].append(2)
    for _ in range(2):
        loaded = await store.load_memory_state("key")
        assert loaded == {"turns": [1]}
        loaded["turns"].append(3)
