"""Searches of several scopes: one that takes long holds up nobody else, and nothing piles up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog import StoreClosed
from foldlog.scoped import Scope, indexes as indexes_module
from foldlog.scoped.documents import Text
from foldlog.scoped.index import Index

ONE, OTHER = Scope.session("s1"), Scope.session("s2")


@pytest.fixture
async def store() -> AsyncIterator[foldlog.Store]:
    async with foldlog.memory_store() as store:
        for scope in (ONE, OTHER):
            await store.scoped.write_many(scope, {"a": "word", "b": "another"})
        yield store


async def keys(scoped: Any, scope: Scope, query: str) -> list[str]:
    return sorted([found.key for found in await scoped.search(scope, query, 10)])


class Gate:
    """Holds up the first search of a scope until it is opened; `reached` when it is there."""

    def __init__(self) -> None:
        self.reached, self.opened = asyncio.Event(), asyncio.Event()


@contextmanager
def holding_up(held_up: Scope, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """A gate before a scope's index; open at the end, however the test ends."""
    gate, current = Gate(), indexes_module.Indexes._current

    async def gated(indexes: Any, scope: Scope, *args: Any) -> Index:
        found = await current(indexes, scope, *args)
        if scope == held_up and not gate.reached.is_set():
            gate.reached.set()
            await gate.opened.wait()
        return found

    monkeypatch.setattr(indexes_module.Indexes, "_current", gated)
    try:
        yield gate
    finally:
        gate.opened.set()


async def test_a_search_that_takes_long_holds_up_no_other_scope(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scoped = store.scoped.with_search(path=tmp_path)
    with holding_up(ONE, monkeypatch) as gate:
        slow = asyncio.create_task(keys(scoped, ONE, "word"))
        await gate.reached.wait()
        async with asyncio.timeout(20):
            assert await keys(scoped, OTHER, "word") == ["a"]
            assert await scoped.read(ONE, "a") == "word"
            await scoped.erase(OTHER)
            assert await keys(scoped, OTHER, "word") == []
        assert not slow.done()
    assert await slow == ["a"]


async def test_an_index_that_is_searched_is_not_closed(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes_module, "_OPEN", 1)
    with holding_up(ONE, monkeypatch) as gate:
        slow = asyncio.create_task(keys(store.scoped, ONE, "word"))
        await gate.reached.wait()
        async with asyncio.timeout(20):
            for scope in (OTHER, Scope.global_(), OTHER):
                await keys(store.scoped, scope, "word")
        assert ONE in store.scoped._indexes._open
    assert await slow == ["a"]
    await keys(store.scoped, OTHER, "word")
    assert [*store.scoped._indexes._open] == [OTHER]


async def test_searches_of_one_scope_make_its_index_once(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    take = Index.take

    def counted(index: Index, texts: Sequence[Text]) -> None:
        taken.extend(each.key for each in texts)
        take(index, texts)

    monkeypatch.setattr(Index, "take", counted)
    found = await asyncio.gather(*(keys(store.scoped, ONE, "word") for _ in range(8)))
    assert found == [["a"]] * 8
    assert sorted(taken) == ["a", "b"]


async def test_what_is_kept_of_searches_does_not_grow_with_scopes(store: foldlog.Store) -> None:
    indexes = store.scoped._indexes
    await asyncio.gather(*(keys(store.scoped, Scope.session(f"{n}"), "word") for n in range(100)))
    assert len(indexes._turns) == 0
    assert len(indexes._open) <= indexes_module._OPEN


async def test_a_search_that_was_given_up_leaves_its_index_to_the_next(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, opened = asyncio.get_running_loop(), threading.Event()
    reached = asyncio.Event()
    take = Index.take

    def held_up(index: Index, texts: Sequence[Text]) -> None:
        take(index, texts)
        if not opened.is_set():  # the transaction is open
            loop.call_soon_threadsafe(reached.set)
            assert opened.wait(20)

    monkeypatch.setattr(Index, "take", held_up)
    slow = asyncio.create_task(keys(store.scoped, ONE, "word"))
    await reached.wait()
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    again = asyncio.create_task(keys(store.scoped, ONE, "word"))
    index = store.scoped._indexes._open[ONE].index
    assert index.lock.locked()
    await asyncio.sleep(0)
    opened.set()
    assert await again == ["a"]
    assert store.scoped._indexes._open[ONE].index is index  # nothing was taken for damage


async def test_a_store_that_is_closed_waits_for_its_searches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = foldlog.memory_store()
    await store.scoped.write(ONE, "a", "word")
    with holding_up(ONE, monkeypatch) as gate:
        slow = asyncio.create_task(keys(store.scoped, ONE, "word"))
        await gate.reached.wait()
        closing = asyncio.create_task(store.scoped.close())
        await asyncio.sleep(0)
        assert not closing.done()
    assert await slow == ["a"]
    await closing
    assert len(store.scoped._indexes._open) == 0
    await store.close()


async def test_a_search_of_a_closed_store_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    store = foldlog.memory_store()
    await store.scoped.write(ONE, "a", "word")
    with holding_up(ONE, monkeypatch) as gate:
        slow = asyncio.create_task(keys(store.scoped, ONE, "word"))
        await gate.reached.wait()
        closing = asyncio.create_task(store.scoped.close())
        await asyncio.sleep(0)
        late = [asyncio.create_task(keys(store.scoped, scope, "word")) for scope in (ONE, OTHER)]
        await asyncio.sleep(0)
    assert await slow == ["a"]
    await closing
    for each in late:
        with pytest.raises(StoreClosed):
            await each
    assert len(store.scoped._indexes._open) == 0
    for scope in (ONE, None):
        with pytest.raises(StoreClosed):
            await store.scoped.forget(scope)
    await store.close()


async def test_an_embedder_is_called_once_at_a_time(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way, most = 0, 0

    async def embed(embedder: Any, texts: list[str], run: Any) -> list[bytes]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return [b"vector"] * len(texts)

    monkeypatch.setattr("foldlog.scoped.vectors.embed", embed)
    search = store.scoped.with_search(embedder=lambda texts: [[1.0]] * len(texts))._search
    found = await asyncio.gather(*(search._embedded(["text"]) for _ in range(5)))
    assert (found, most) == ([[b"vector"]] * 5, 1)
