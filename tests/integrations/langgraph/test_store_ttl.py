"""FoldlogStore: items whose time is over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

import foldlog
from foldlog.integrations.langgraph import FoldlogStore
from foldlog_projections.langgraph import langgraphitems
from foldlog_projections.langgraph.langgraphitems import Entry

PATIENCE = 30

Later = Callable[[float], None]


@pytest.fixture
def later(log: foldlog.Store, monkeypatch: pytest.MonkeyPatch) -> Later:
    """Sets the store's clock so many minutes ahead of the log's."""

    def set_clock(minutes: float) -> None:
        monkeypatch.setattr(log._core, "now", lambda: time.time() + 60 * minutes)

    return set_clock


async def keys(store: FoldlogStore, **asked: Any) -> list[str]:
    return [item.key for item in await store.asearch(("a",), **asked)]


async def entries(log: foldlog.Store) -> dict[str, Entry]:
    found: dict[str, Entry] = await log.view(langgraphitems.kind("default", "a"))
    return found


async def test_a_sweep_removes_what_is_over(log: foldlog.Store, later: Later) -> None:
    store = FoldlogStore(log, ttl={"default_ttl": 10})
    await store.aput(("a",), "default", {})
    await store.aput(("a",), "longer", {}, ttl=60)
    await store.aput(("a",), "for ever", {}, ttl=None)
    await store.aput(("b",), "for ever", {}, ttl=None)
    assert await store.asweep_ttl() == 0
    later(11)
    assert await store.asweep_ttl() == 1
    assert await keys(store) == ["for ever", "longer"]
    later(61)
    assert await store.asweep_ttl() == 1
    assert await store.asweep_ttl() == 0
    assert await store.alist_namespaces() == [("a",), ("b",)]


async def test_what_is_over_is_shown_until_it_is_swept_unless_it_is_to_be_omitted(
    log: foldlog.Store, later: Later
) -> None:
    store = FoldlogStore(log)
    omitting = FoldlogStore(log, ttl={"omit_expired": True})
    await store.aput(("a",), "k", {"t": "x"}, ttl=10)
    await store.aput(("b",), "k", {})
    later(11)
    assert await store.aget(("a",), "k", refresh_ttl=False) is not None
    assert await keys(store, refresh_ttl=False) == ["k"]
    assert await omitting.aget(("a",), "k") is None
    assert await keys(omitting) == await keys(omitting, query="x") == []
    assert await omitting.alist_namespaces() == [("b",)]
    assert await store.asweep_ttl() == 1


@pytest.mark.parametrize("read", ["get", "search", "query"])
async def test_a_read_begins_the_time_anew(log: foldlog.Store, later: Later, read: str) -> None:
    store = FoldlogStore(log)
    await store.aput(("a",), "k", {"t": "x"}, ttl=10)
    await store.aput(("a",), "for ever", {})

    async def do(refresh: bool) -> None:
        if read == "get":
            assert await store.aget(("a",), "k", refresh_ttl=refresh) is not None
        else:
            asked = {"query": "x"} if read == "query" else {}
            assert len(await keys(store, refresh_ttl=refresh, **asked)) == 2

    put_at = (await entries(log))["k"].touched_at
    later(0.25)
    await do(refresh=True)  # so soon that it is not worth a record
    later(5)
    await do(refresh=False)
    assert (await entries(log))["k"].touched_at == put_at
    await do(refresh=True)
    found = await entries(log)
    assert found["k"].touched_at > put_at
    assert found["k"].updated_at == put_at
    assert found["for ever"].touched_at == found["for ever"].updated_at


async def test_the_configuration_says_whether_reads_refresh(
    log: foldlog.Store, later: Later
) -> None:
    store = FoldlogStore(log, ttl={"default_ttl": 10, "refresh_on_read": False})
    await store.aput(("a",), "k", {})
    put_at = (await entries(log))["k"].touched_at
    later(5)
    await store.aget(("a",), "k")
    assert (await entries(log))["k"].touched_at == put_at


async def test_an_item_that_was_put_meanwhile_is_not_swept(
    log: foldlog.Store, later: Later
) -> None:
    store = FoldlogStore(log)
    await store.aput(("a",), "k", {"n": 1}, ttl=10)
    later(11)
    async with foldlog.memory_store(log=log.log) as second:  # type: ignore[arg-type]
        other = FoldlogStore(second)
        await other.aput(("a",), "k", {"n": 2}, ttl=60)
        assert await store.asweep_ttl() == 0
    assert await keys(store) == ["k"]


async def test_the_sweeper_sweeps_until_it_is_stopped(log: foldlog.Store, later: Later) -> None:
    store = FoldlogStore(log, ttl={"sweep_interval_minutes": 0.001 / 60})  # type: ignore[typeddict-item]
    await store.astart_ttl_sweeper()
    await store.astart_ttl_sweeper()  # it has begun
    await store.aput(("a",), "k", {}, ttl=10)
    later(11)
    changes = log.watch(langgraphitems.kind("default", "a"))
    async with asyncio.timeout(PATIENCE), aclosing(changes):
        async for item in changes:
            if item.type == langgraphitems.SWEPT:
                break
    assert await keys(store) == []
    await store.astop_ttl_sweeper()
    await store.astop_ttl_sweeper()
    await store.astart_ttl_sweeper()  # it ends with the store


def test_the_sweeper_of_blocking_code_ends_with_its_store() -> None:
    with FoldlogStore.from_conn_string(":memory:") as store:
        store.start_ttl_sweeper(60)
        store.put(("a",), "k", {}, ttl=1)
        assert store.sweep_ttl() == 0
        store.stop_ttl_sweeper()
        store.start_ttl_sweeper(60)
