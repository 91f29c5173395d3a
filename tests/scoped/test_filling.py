"""Folding a scope into its index: all of it, however its records come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.log.memory import MemoryLog
from foldlog.scoped import (
    ContentKind,
    MemoryTier,
    Scope,
    StoreOptions,
    indexes,
)
from foldlog.scoped.index import Index, Synced
from foldlog.scoped.records import KeyEvent
from foldlog.subjects import Branch

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
    await scoped.write(ONE, "k:1", "word rewritten", hints)
    await scoped.write(ONE, "over", "word", StoreOptions(ttl=0))
    await scoped.delete(ONE, "gone")
    await scoped.write(Scope.session("s10"), "k:1", "word of another")


async def documents(store: foldlog.Store, place: Path) -> list[tuple[Any, ...]]:
    """What the index of the scope holds, made anew in a place."""
    scoped = store.scoped.with_search(path=place)
    await scoped.search(ONE, "word", 1)
    [index] = [each.index for each in scoped._indexes._open.values()]
    query = (
        "SELECT e.key, e.version, e.tier, e.kind, e.salience, e.expires_at, t.body, t.parts"
        " FROM entries AS e JOIN texts AS t ON t.rowid = e.id"
    )
    found = list(index.database.execute(query))
    index.database.execute("INSERT INTO texts(texts) VALUES ('integrity-check')")
    return sorted(found)


async def test_an_index_is_the_same_however_it_is_filled(
    store: foldlog.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 700
    await filled(store, count)
    wanted = await documents(store, tmp_path / "whole")
    assert {row[0] for row in wanted} - {"over"} == {
        *(f"k:{n}" for n in range(count)),
        "x" * 200,
        "a.*>",
        "large",
    }
    [rewritten] = [row for row in wanted if row[0] == "k:1"]
    assert rewritten[2:5] == ("cold", "episodic", 0.9)
    monkeypatch.setattr(indexes, "_EVENTS", 10)
    assert await documents(store, tmp_path / "few") == wanted
    monkeypatch.setattr(indexes, "_BATCH", 1)
    assert await documents(store, tmp_path / "one") == wanted


async def test_large_values_are_taken_in_a_few_at_a_time(
    store: foldlog.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foldlog.scoped.keys.BLOB_BYTES", 10)
    monkeypatch.setattr(indexes, "_BATCH", 100)
    await store.scoped.write_many(ONE, {f"k{n}": f"word number {n:02}" for n in range(40)})
    folded, fold = list[int](), Index.fold

    def counted(index: Index, events: Sequence[KeyEvent], since: Synced) -> Synced | None:
        folded.append(sum(len(each.text.body) for each in events if each.text))
        return fold(index, events, since)

    monkeypatch.setattr(Index, "fold", counted)
    scoped = store.scoped.with_search(path=tmp_path)
    assert len(await scoped.search(ONE, "word", 50)) == 40
    assert (sum(folded), max(folded)) == (40 * 14, 8 * 14)


async def test_an_index_that_grows_goes_on_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with foldlog.memory_store(log=(log := MemoryLog())) as store:
        scoped = store.scoped.with_search(path=tmp_path)
        await scoped.write(Scope.global_(), "small", 1)
        for start in range(0, 2400, 600):
            numbers = range(start, start + 600)
            await scoped.write_many(ONE, {f"k:{number:04}": number for number in numbers})
            assert len(await scoped.list(ONE)) == start + 600
        assert await scoped.list(Scope.global_()) == ["small"]
    [_] = tmp_path.glob("*.db")  # noqa: ASYNC240 - one look at a local directory
    folded, fold = list[int](), Index.fold

    def counted(index: Index, events: Sequence[KeyEvent], since: Synced) -> Synced | None:
        folded.append(len(events))
        return fold(index, events, since)

    monkeypatch.setattr(Index, "fold", counted)
    async with foldlog.memory_store(log=log) as store:
        scoped = store.scoped.with_search(path=tmp_path)
        assert await scoped.list(ONE, "k:077") == [f"k:077{number}" for number in range(10)]
        assert folded == []
        await scoped.write(ONE, "k:077x", 1)
        assert len(await scoped.list(ONE, "k:077")) == 11
        assert folded == [1]


async def test_other_views_of_a_busy_log_make_no_index_read_its_scope_again(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.scoped.write(ONE, "a", "word")
    await store.scoped.list(ONE)
    asked, read = list[int](), store._core.log.read

    def counted(subject: Any, *, after: int = 0, strong: bool = True) -> Any:
        if isinstance(subject, Branch):
            asked.append(after)
        return read(subject, after=after, strong=strong)

    monkeypatch.setattr(store._core.log, "read", counted)
    assert await store.scoped.list(ONE) == ["a"]
    assert asked == []  # nothing was heard of
    for number in range(3):
        await store.save_memory_state("acme:ann:trip", {"n": number})
        assert await store.scoped.list(ONE) == ["a"]
    assert len(asked) == len(set(asked)) == 3  # each time from farther on
    assert asked == sorted(asked)
