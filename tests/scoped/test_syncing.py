"""Filling a search index: all of a scope, however its pages come."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

import foldlog
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Stored
from foldlog.scoped import ContentKind, MemoryTier, Scope, StoreOptions, syncing as syncing_module
from foldlog.scoped.index import Document, Index
from foldlog.views import snapshot

ONE = Scope.session("s1")


async def filled(store: foldlog.Store, count: int) -> None:
    """Keys of every kind, those included that are hashed, spilled, deleted, rewritten, over."""
    scoped = store.scoped
    for start in range(0, count, 300):
        numbers = range(start, min(start + 300, count))
        await scoped.write_many(ONE, {f"k:{n}": f"word number{n}" for n in numbers})
    await scoped.write_many(ONE, {"x" * 200: "word hashed", "a.*>": "word odd", "gone": "word"})
    await scoped.write(ONE, "large", "word " + "x" * 300_000)
    hints = StoreOptions(
        tier=MemoryTier.COLD, content_kind=ContentKind.EPISODIC, salience=0.9, ttl=10**9
    )
    await scoped.write_hinted(ONE, "k:1", "word rewritten", hints)
    await scoped.write_hinted(ONE, "over", "word", StoreOptions(ttl=0))
    await scoped.delete(ONE, "gone")
    await scoped.write(Scope.session("s10"), "k:1", "word of another")


async def documents(store: foldlog.Store) -> list[tuple[Any, ...]]:
    """What the index of the scope holds, made anew."""
    scoped = store.scoped.with_search()
    await scoped.search(ONE, "word", 1)
    [index] = scoped._search._open.values()
    query = "SELECT d.*, t.body FROM documents AS d JOIN texts AS t ON t.rowid = d.id"
    found = [row[1:] for row in index._database.execute(query)]
    assert index._one("INSERT INTO texts(texts) VALUES ('integrity-check')") is None
    return sorted(found)


async def test_an_index_is_the_same_however_it_is_filled(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 700
    await filled(store, count)
    monkeypatch.setattr(syncing_module, "_ASKED", 10**6)
    wanted = await documents(store)
    assert {row[0] for row in wanted} == {
        *(f"k:{n}" for n in range(count)),
        "x" * 200,
        "a.*>",
        "large",
    }
    [rewritten] = [row for row in wanted if row[0] == "k:1"]
    assert rewritten[2:5] == ("cold", "episodic", 0.9)
    monkeypatch.setattr(syncing_module, "_ASKED", 512)
    assert await documents(store) == wanted
    monkeypatch.setattr(syncing_module, "_ASKED", 100)
    lasts = store.scoped._keys.lasts

    async def partly(scope: Scope) -> AsyncIterator[list[Stored]]:
        async for page in lasts(scope):
            yield page[::3]

    async def twice(scope: Scope) -> AsyncIterator[list[Stored]]:
        async for page in lasts(scope):
            yield [*page, *page]
            yield page

    async def nothing(scope: Scope) -> AsyncIterator[list[Stored]]:
        pages: list[list[Stored]] = []
        for page in pages:
            yield page

    for hints in (partly, twice, nothing):
        monkeypatch.setattr(store.scoped._keys, "lasts", hints)
        assert await documents(store) == wanted


async def test_pages_that_lag_put_nothing_old_into_an_index(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    scoped = store.scoped
    await scoped.write_many(ONE, {f"k{n}": "old" for n in range(20)})
    late = [page async for page in scoped._keys.lasts(ONE)]
    await scoped.write_many(ONE, {f"k{n}": "new" for n in range(20)})
    monkeypatch.setattr(syncing_module, "_ASKED", 10)

    async def stale(scope: Scope) -> AsyncIterator[list[Stored]]:
        for page in late:
            yield page

    monkeypatch.setattr(scoped._keys, "lasts", stale)
    assert len(await scoped.search(ONE, "new", 50)) == 20
    assert await scoped.search(ONE, "old", 50) == []


async def test_a_key_that_is_written_while_an_index_is_filled_is_found_as_it_is(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    scoped = store.scoped
    await scoped.write_many(ONE, {f"k{n}": "old" for n in range(20)})
    monkeypatch.setattr(syncing_module, "_ASKED", 10)
    lasts = scoped._keys.lasts

    async def overtaken(scope: Scope) -> AsyncIterator[list[Stored]]:
        await scoped.write(ONE, "k1", "new")
        await scoped.delete(ONE, "k2")
        async for page in lasts(scope):
            yield page

    monkeypatch.setattr(scoped._keys, "lasts", overtaken)
    found = {each.key for each in await scoped.search(ONE, "old", 50)}
    monkeypatch.undo()
    assert found == {f"k{n}" for n in range(20)} - {"k1", "k2"}
    assert [each.key for each in await scoped.search(ONE, "new", 50)] == ["k1"]
    assert len(await scoped.search(ONE, "old", 50)) == 18


@pytest.mark.parametrize("limit", [0, 10**9])
async def test_a_large_list_of_keys_is_restored_away_from_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    log, restore, threads = MemoryLog(), snapshot.restore, list[bool]()
    async with foldlog.memory_store(log=log) as store:
        for start in (0, 600):
            await store.scoped.write_many(ONE, {f"k{n}": n for n in range(start, start + 600)})
        await store.scoped.list(ONE)
    assert log.snapshots.stored

    def restored(*args: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return restore(*args)

    monkeypatch.setattr(snapshot, "restore", restored)
    monkeypatch.setattr("foldlog.views.snapshots._RESTORED_IN_A_THREAD", limit)
    async with foldlog.memory_store(log=log) as store:
        assert len(await store.scoped.list(ONE)) == 1200
    assert threads == [limit > 0]


async def test_large_values_are_taken_in_a_few_at_a_time(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foldlog.scoped.keys.BLOB_BYTES", 10)
    monkeypatch.setattr(syncing_module, "_AT_ONCE", 7)
    await store.scoped.write_many(ONE, {f"k{n}": f"word number {n}" for n in range(40)})
    taken, apply = list[int](), Index.apply

    def counted(index: Index, documents: Iterable[Document], *args: Any) -> None:
        some = list(documents)
        taken.append(len(some))
        apply(index, some, *args)

    monkeypatch.setattr(Index, "apply", counted)
    for asked in (10, 512):  # by a walk, and by asking
        monkeypatch.setattr(syncing_module, "_ASKED", asked)
        taken.clear()
        scoped = store.scoped.with_search()
        assert len(await scoped.search(ONE, "word", 50)) == 40
        assert (sum(taken), max(taken)) == (40, 7)


def document(key: str, body: str, version: str = "1") -> Document:
    return Document(key, version, body, "hot", "", 0.5, 0.0)


def test_pages_are_taken_in_and_let_go_whole() -> None:
    index = Index(None)
    index.apply([document("a", "one"), document("b\0", "two"), document("a", "three", "2")])
    assert index.versions() == {"a": "2", "b\0": "1"}
    assert index.snippets(["three"], ["a", "b\0"]) == {"a": "three", "b\0": "two"}
    [(id, version, _), _] = index.lacking("model", 0, 9)
    index.put_vectors("model", [(id, version, b"1234")])
    index.put_vectors("other", [(id, version, b"5678")])
    index.apply([document("c", "three"), document("a", "four", "3")], ["b\0", "none"], (3, "3"))
    assert index.versions() == {"a": "3", "c": "1"}
    assert index.synced() == (3, "3")
    assert len(index.lacking("model", 0, 9)) == len(index.lacking("other", 0, 9)) == 2

    def broken() -> Any:
        yield document("d", "five")
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - whatever it is
        index.apply(broken(), ["a"])
    assert index.versions() == {"a": "3", "c": "1"}
    index.apply([document("e", "six")])
    assert index.versions() == {"a": "3", "c": "1", "e": "1"}
    index.close()
