"""What the log adds: histories, the past, watching."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

import foldlog
from foldlog import PayloadError, StoreClosed
from foldlog.scoped import (
    ContentKind,
    Effect,
    Lifetime,
    MemoryLink,
    MemoryTier,
    Revision,
    Scope,
    StoreOptions,
)
from tests.conftest import OpenStore

ONE, OTHER = Scope.agent("w", "a"), Scope.global_()


async def test_a_history_has_all_that_was_written_in_order(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    options = StoreOptions(
        tier=MemoryTier.COLD,
        lifetime=Lifetime.SESSION,
        content_kind=ContentKind.custom("x:y"),
        salience=0.25,
        ttl=10**6,
    )
    first = await store.scoped.write(ONE, "key", {"a": 1}, options)
    await store.scoped.write(ONE, "key", "x" * 300_000)
    await store.scoped.delete(ONE, "key")
    await store.scoped.write(OTHER, "key", "other")
    last = await store.scoped.write(ONE, "key", None)
    history = await (await reopen()).scoped.history(ONE, "key")
    assert [len(str(each.value)) for each in history] == [8, 300_000, 4, 4]
    assert [each.deleted for each in history] == [False, False, True, False]
    assert (history[0].version, history[0].options) == (first, options)
    assert history[-1].version == last
    assert [each.position for each in history] == sorted(each.position for each in history)
    assert [each.recorded_at for each in history] == sorted(each.recorded_at for each in history)
    assert await store.scoped.history(ONE, "key", limit=2) == history[-2:]
    assert await store.scoped.history(ONE, "key", limit=0) == []
    with pytest.raises(PayloadError):
        await store.scoped.history(ONE, "key", limit=-1)


async def test_a_history_of_any_length_is_whole_up_to_its_limit(store: foldlog.Store) -> None:
    for number in range(7):
        await store.scoped.write(ONE, "a", number)
    for limit in range(16):
        history = await store.scoped.history(ONE, "a", limit=limit)
        assert [each.value for each in history] == list(range(7))[max(7 - limit, 0) :]


async def test_the_past_is_read_by_position_and_by_time(store: foldlog.Store) -> None:
    scoped = store.scoped
    before = await store.position()
    await scoped.write(ONE, "key", 1)
    between = await store.position()
    await scoped.write(ONE, "key", 2)
    await scoped.delete(ONE, "key")
    await scoped.write(ONE, "key", 3)
    history = await scoped.history(ONE, "key")
    for each in history:
        assert await scoped.read(ONE, "key", at=each.position) == each.value
        assert await scoped.read(ONE, "key", at=each.recorded_at) == each.value
    assert await scoped.read(ONE, "key", at=before) is None
    assert await scoped.read(ONE, "key", at=between) == 1
    assert await store.at(between).scoped.read(ONE, "key") == 1
    assert await store.at(between).scoped.list(ONE) == ["key"]
    early = history[0].recorded_at - dt.timedelta(seconds=1)
    assert await scoped.read(ONE, "key", at=early) is None
    assert await scoped.read(ONE, "key") == 3
    bad: Any
    for bad in (7, "yesterday", dt.datetime(2026, 1, 1)):
        with pytest.raises(PayloadError):
            await scoped.read(ONE, "key", at=bad)


async def test_writes_of_one_moment_are_told_apart(store: foldlog.Store) -> None:
    await store.scoped.apply([Effect.WriteMemory(ONE, "key", number) for number in range(3)])
    history = await store.scoped.history(ONE, "key")
    assert len({each.position.seq for each in history}) == 1
    found = [await store.scoped.read(ONE, "key", at=each.position) for each in history]
    assert found == [0, 1, 2]


# --- watching -----------------------------------------------------------------------------------


def brief(revision: Revision) -> tuple[str, Any]:
    return revision.key, "deleted" if revision.deleted else revision.value


async def take(watch: AsyncGenerator[Revision], count: int) -> list[tuple[str, Any]]:
    async with asyncio.timeout(20):
        return [brief(await anext(watch)) for _ in range(count)]


async def test_a_watch_tells_what_there_is_and_then_each_change(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    scoped, other = store.scoped, (await reopen()).scoped
    await scoped.write(ONE, "b", 1)
    await scoped.write(ONE, "a", 1)
    await scoped.write(ONE, "gone", 1)
    await scoped.delete(ONE, "gone")
    await scoped.write(ONE, "b", 2)
    async with aclosing(other.reader.watch(ONE)) as watch:
        assert await take(watch, 2) == [("a", 1), ("b", 2)]
        await scoped.apply([Effect.WriteMemory(ONE, "c", number) for number in range(3)])
        await scoped.link(ONE, MemoryLink("a", "b", "r"))
        await scoped.write(OTHER, "c", "elsewhere")
        await scoped.delete(ONE, "a")
        await scoped.write(ONE, "large", "x" * 300_000)
        assert await take(watch, 5) == [
            ("c", 0),
            ("c", 1),
            ("c", 2),
            ("a", "deleted"),
            ("large", "x" * 300_000),
        ]


async def test_a_watch_by_prefix_goes_on_after_a_version(store: foldlog.Store) -> None:
    scoped = store.scoped
    await scoped.write(ONE, "k:a", 1)
    version = await scoped.write(ONE, "k:b", 1)
    await scoped.write(ONE, "other", 1)
    await scoped.write(ONE, "k:a", 2)
    await scoped.delete(ONE, "k:b")
    async with aclosing(scoped.watch(ONE, "k:", after=version)) as watch:
        assert await take(watch, 2) == [("k:a", 2), ("k:b", "deleted")]
        await scoped.write(ONE, "k:c", 3)
        assert await take(watch, 1) == [("k:c", 3)]
    async with aclosing(scoped.watch(ONE, "k:", after="unknown")) as watch:
        with pytest.raises(foldlog.NotFound, match="unknown"):
            await take(watch, 1)


async def test_a_watch_loses_and_repeats_nothing_while_others_write(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = (await reopen()).scoped
    found: list[tuple[str, Any]] = []

    async def watch() -> None:
        async with aclosing(other.watch(ONE)) as watch:
            async for revision in watch:
                found.append(brief(revision))
                if revision.key == "last":
                    return

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(watch())
        await store.scoped.write(ONE, "first", 0)
        await asyncio.gather(*(store.scoped.write(ONE, f"{n}", n) for n in range(60)))
        await store.scoped.write(ONE, "last", 0)
    assert sorted(found) == sorted([("first", 0), ("last", 0), *((f"{n}", n) for n in range(60))])


async def test_a_watch_ends_with_the_store(reopen: OpenStore) -> None:
    store = await reopen()
    await store.scoped.write(ONE, "a", 1)
    watch = store.scoped.watch(ONE)
    assert await take(watch, 1) == [("a", 1)]
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(StoreClosed):
        await waiting


# --- clearing -----------------------------------------------------------------------------------


async def test_a_scope_that_is_cleared_leaves_nothing(store: foldlog.Store) -> None:
    scoped = store.scoped
    await scoped.write_many(ONE, {"a": 1, "b": "x" * 300_000, "gone": "word"})
    await scoped.delete(ONE, "gone")
    await scoped.link(ONE, MemoryLink("a", "b", "r"))
    await scoped.write(OTHER, "a", "kept")
    await scoped.search(ONE, "word", 5)
    await scoped.erase(ONE)
    assert await scoped.list(ONE) == []
    for key in ("a", "b", "gone"):
        assert await scoped.read(ONE, key) is None
        assert await scoped.history(ONE, key) == []
    assert await scoped.traverse(ONE, "a", None, 3) == []
    assert await scoped.search(ONE, "x word", 5) == []
    assert await scoped.read(OTHER, "a") == "kept"
    if hasattr(store._core.log, "blobs"):
        assert await store._core.log.blobs.names() == []
    await scoped.write(ONE, "a", "again")
    assert await scoped.list(ONE) == ["a"]
    assert len(await scoped.history(ONE, "a")) == 1


async def test_a_store_that_is_cleared_has_no_scopes(store: foldlog.Store) -> None:
    await store.scoped.write_many(ONE, {"a": 1, "b": "x" * 300_000})
    await store.clear(store.log.namespace.name)
    assert await store.scoped.list(ONE) == []
    assert await store.scoped.read(ONE, "a") is None
    if hasattr(store._core.log, "blobs"):
        assert await store._core.log.blobs.names() == []


async def test_a_rebuild_finds_views_as_they_were_served(store: foldlog.Store) -> None:
    await store.scoped.write_many(ONE, {"a": 1, "b": 2})
    await store.scoped.list(ONE)
    await store.scoped.delete(ONE, "a")
    await store.scoped.list(ONE)
    report = await store.rebuild()
    assert report.differing == ()
    assert report.projections == {"scoped": 2}
    assert await store.scoped.list(ONE) == ["b"]
