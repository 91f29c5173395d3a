"""Trajectories: one per trace, guarded by its session."""

from __future__ import annotations

import asyncio

import pytest

import foldlog
from tests.conftest import OpenStore
from tests.support.build import trajectory
from tests.support.exact import same


async def test_a_trajectory_comes_back_as_it_was(store: foldlog.Store, reopen: OpenStore) -> None:
    saved = trajectory(
        "where?",
        llm_context={"a": [1, None]},
        tool_context={"tenant": "acme"},
        artifacts={"chart": {"id": "art_1"}},
        sources=[{"url": "x"}],
        metadata={"big": 10**30, "ratio": -0.0, "nested": {"l": [[]]}},
        hint_state={"hint": 1},
        resume_user_input="yes",
        steering_inputs=["stop", "go"],
    )
    await store.save_trajectory("trace", "session", saved)
    for reader in (store, await reopen()):
        loaded = await reader.get_trajectory("trace", "session")
        assert loaded == saved
        assert loaded is not None
        assert same(loaded.metadata, saved.metadata)
        assert loaded.serialise() == saved.serialise()


async def test_an_unknown_trace_or_the_wrong_session_is_none(store: foldlog.Store) -> None:
    await store.save_trajectory("trace", "session", trajectory())
    assert await store.get_trajectory("nonexistent", "session") is None
    assert await store.get_trajectory("trace", "other") is None
    assert await store.get_trajectory("trace", "session") == trajectory()


async def test_an_unknown_session_has_no_traces(store: foldlog.Store) -> None:
    assert await store.list_traces("nonexistent") == []


async def test_the_last_save_wins_even_when_it_repeats_an_earlier_one(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    for query in ("a", "b", "a", "a", "c", "a"):
        await store.save_trajectory("trace", "session", trajectory(query))
        assert await store.get_trajectory("trace", "session") == trajectory(query)
    assert await (await reopen()).get_trajectory("trace", "session") == trajectory("a")
    assert await store.list_traces("session") == ["trace"]


async def test_traces_are_listed_by_last_save_newest_first(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    for trace in ("a", "b", "c", "a"):
        await store.save_trajectory(trace, "session", trajectory(trace))
    await store.save_trajectory("elsewhere", "other", trajectory())
    for reader in (store, await reopen()):
        assert await reader.list_traces("session") == ["a", "c", "b"]
        assert await reader.list_traces("other") == ["elsewhere"]

    await store.save_trajectory("b", "session", trajectory("changed"))
    assert await store.list_traces("session") == ["b", "a", "c"]


async def test_traces_are_limited_to_the_newest(store: foldlog.Store) -> None:
    for i in range(60):
        await store.save_trajectory(f"t{i}", "session", trajectory())
    newest_first = [f"t{i}" for i in reversed(range(60))]
    assert await store.list_traces("session") == newest_first[:50]
    assert await store.list_traces("session", limit=3) == newest_first[:3]
    assert await store.list_traces("session", 1_000) == newest_first


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_below_one_lists_nothing(store: foldlog.Store, limit: int) -> None:
    await store.save_trajectory("trace", "session", trajectory())
    assert await store.list_traces("session", limit=limit) == []


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


async def test_trajectories_belong_to_the_caller(store: foldlog.Store) -> None:
    saved = trajectory(metadata={"l": [1]})
    await store.save_trajectory("trace", "session", saved)
    saved.metadata["l"].append(2)
    saved.query = "changed"
    for _ in range(2):
        loaded = await store.get_trajectory("trace", "session")
        assert loaded == trajectory(metadata={"l": [1]})
        assert loaded is not None
        loaded.metadata["l"].append(3)
        (await store.list_traces("session")).clear()
