"""Filling a search index: all of a scope, however its pages come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.envelope import Recorded
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Record, Stored
from foldlog.scoped import (
    ContentKind,
    MemoryTier,
    Scope,
    SearchOptions,
    StoreOptions,
    filling,
    indexes,
    texts,
)
from foldlog.scoped.index import Index, Synced
from foldlog.scoped.texts import Document
from foldlog.subjects import Namespace
from foldlog_projections import scoped as kinds

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
    [index] = [each.index for each in scoped._indexes._open.values()]
    query = (
        "SELECT e.key, e.version, e.tier, e.kind, e.salience, e.expires_at, t.body, t.parts"
        " FROM entries AS e JOIN texts AS t ON t.rowid = e.id WHERE e.taken = e.version"
    )
    found = list(index.database.execute(query))
    index.database.execute("INSERT INTO texts(texts) VALUES ('integrity-check')")
    return sorted(found)


async def test_an_index_is_the_same_however_it_is_filled(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 700
    await filled(store, count)
    monkeypatch.setattr(filling, "_ASKED", 10**6)
    wanted = await documents(store)
    assert {row[0] for row in wanted} == {
        *(f"k:{n}" for n in range(count)),
        "x" * 200,
        "a.*>",
        "large",
    }
    [rewritten] = [row for row in wanted if row[0] == "k:1"]
    assert rewritten[2:5] == ("cold", "episodic", 0.9)
    monkeypatch.setattr(filling, "_ASKED", 512)
    assert await documents(store) == wanted
    monkeypatch.setattr(filling, "_ASKED", 100)
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
    monkeypatch.setattr(filling, "_ASKED", 10)

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
    monkeypatch.setattr(filling, "_ASKED", 10)
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


async def test_large_values_are_taken_in_a_few_at_a_time(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foldlog.scoped.keys.BLOB_BYTES", 10)
    monkeypatch.setattr(filling, "_AT_ONCE", 7)
    await store.scoped.write_many(ONE, {f"k{n}": f"word number {n}" for n in range(40)})
    taken, take = list[int](), texts.take

    def counted(index: Index, documents: Iterable[Document]) -> None:
        some = list(documents)
        taken.append(len(some))
        take(index, some)

    monkeypatch.setattr(texts, "take", counted)
    for asked in (10, 512):  # by a walk, and by asking
        monkeypatch.setattr(filling, "_ASKED", asked)
        taken.clear()
        scoped = store.scoped.with_search()
        assert len(await scoped.search(ONE, "word", 50)) == 40
        assert (sum(taken), max(taken)) == (40, 7)


async def test_a_large_scope_is_indexed_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "_CLOSING_SECONDS", 60.0)
    async with foldlog.memory_store(log=(log := MemoryLog())) as store:
        scoped = store.scoped.with_search(path=tmp_path)
        for start in range(0, 2400, 600):
            numbers = range(start, start + 600)
            await scoped.write_many(ONE, {f"k:{number:04}": number for number in numbers})
        await scoped.write(Scope.global_(), "small", 1)
    [_] = tmp_path.glob("*.db")  # noqa: ASYNC240 - one look at a local directory
    folded, fold = list[int](), Index.fold

    def counted(index: Index, records: Sequence[Record], since: Synced) -> Synced | None:
        folded.append(sum(record.seq > since.seq for record in records))
        return fold(index, records, since)

    monkeypatch.setattr(Index, "fold", counted)
    async with foldlog.memory_store(log=log) as store:
        scoped = store.scoped.with_search(path=tmp_path)
        assert await scoped.list(ONE, "k:077") == [f"k:077{number}" for number in range(10)]
        assert folded == []
        await scoped.write(ONE, "k:077x", 1)
        assert len(await scoped.list(ONE, "k:077")) == 11
        assert folded == [1]


async def test_a_search_tells_how_far_the_index_is(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.scoped.write_many(ONE, {f"k{n}": "word" for n in range(100)})
    for asked in (10, 512):  # by a walk, and by asking
        monkeypatch.setattr(filling, "_ASKED", asked)
        scoped, told = store.scoped.with_search(), list[tuple[int, int]]()

        def tell(done: int, total: int, told: list[tuple[int, int]] = told) -> None:
            told.append((done, total))

        for _ in range(2):
            found = await scoped.search_hinted(ONE, "word", 5, SearchOptions(), on_progress=tell)
            assert len(found) == 5
        assert told == sorted(set(told))
        assert told[-1] == (100, 100)


def write(index: Index, number: int, key: str, type: str = kinds.WRITTEN) -> None:
    subject, time = Namespace().subject("scoped", "s", key), "2026-01-01T00:00:00Z"
    envelope = Recorded(str(number), type, 1, 0.0, b"\x80", None, number, 0, time)
    record = Record(number, [envelope], subject=subject.name)
    assert index.fold([record], index.synced()) is not None


def test_pages_are_taken_in_and_let_go_whole() -> None:
    index = Index(None)
    for number, key in enumerate(["a", "b\0", "a"], 1):
        write(index, number, key)
    assert texts.untaken(index) == {"a": "3", "b\0": "2"}
    texts.take(index, [Document("a", "1", "one"), Document("b\0", "2", "two")])
    assert texts.untaken(index) == {"a": "3"}
    texts.take(index, [Document("a", "3", "three"), Document("none", "3", "x")])
    assert texts.untaken(index) == {}
    assert texts.snippets(index, ["three"], ["a", "b\0"]) == {"a": "three", "b\0": "two"}
    [(id, version, _), _] = texts.lacking(index, "model", 0, 9)
    texts.put_vectors(index, "model", [(id, version, b"1234")])
    assert len(texts.lacking(index, "model", 0, 9)) == 1

    def broken() -> Any:
        yield Document("c", "4", "four")
        raise ValueError

    write(index, 4, "c")
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it is
        texts.take(index, broken())
    assert texts.untaken(index) == {"c": "4"}
    write(index, 5, "a")  # its old text is not found, its old vector not kept
    assert texts.matching(index, ["three"], texts.Filter(0.0), 9) == []
    texts.take(index, [Document("a", "5", "five"), Document("c", "4", "four")])
    assert len(texts.lacking(index, "model", 0, 9)) == 3
    write(index, 6, "a", kinds.DELETED)
    assert [row[0] for row in index.database.execute("SELECT key FROM texts")] == ["b\0", "c"]
    index.close()


def test_a_vector_of_an_older_version_is_not_kept() -> None:
    index = Index(None)
    write(index, 1, "a")
    texts.take(index, [Document("a", "1", "old")])
    [(id, version, _)] = texts.lacking(index, "model", 0, 9)
    write(index, 2, "a")
    texts.take(index, [Document("a", "2", "new")])  # by another process, say
    texts.put_vectors(index, "model", [(id, version, b"old!")])
    assert texts.lacking(index, "model", 0, 9) == [(id, "2", "a\nnew")]
    texts.put_vectors(index, "model", [(id, "2", b"new!")])
    assert texts.lacking(index, "model", 0, 9) == []
    index.close()
