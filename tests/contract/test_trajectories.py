"""Trajectories beyond `test_kit`: absent contexts, strong reads."""

from __future__ import annotations

import asyncio

import foldlog
from tests.conftest import OpenStore
from tests.support.build import trajectory


async def test_absent_contexts_stay_absent(store: foldlog.Store, reopen: OpenStore) -> None:
    saved = trajectory(llm_context=None, tool_context={})
    await store.save_trajectory("trace", "session", saved)
    for reader in (store, await reopen()):
        assert await reader.get_trajectory("trace", "session") == saved


async def test_concurrent_writers_lose_nothing(store: foldlog.Store, reopen: OpenStore) -> None:
    other = await reopen()
    saves = (
        (store, other)[i % 2].save_trajectory(f"t{i % 25}", "session", trajectory(f"q{i}"))
        for i in range(50)
    )
    await asyncio.gather(*saves)
    listed = await store.list_traces("session", consistency="strong")
    assert sorted(listed) == sorted(f"t{i}" for i in range(25))
    assert await other.list_traces("session", consistency="strong") == listed
    for i in range(25):
        loaded = await store.get_trajectory(f"t{i}", "session", consistency="strong")
        assert loaded in (trajectory(f"q{i}"), trajectory(f"q{i + 25}"))
        assert loaded == await other.get_trajectory(f"t{i}", "session", consistency="strong")
