"""Vectors on the log: behind the value's record, where no read of the key takes them for it."""

from __future__ import annotations

from pathlib import Path

import foldlog
from foldlog.scoped import Scope
from foldlog.scoped.indexes import Indexes
from foldlog_projections.scoped.scoped import Embedded, kind
from tests.conftest import OpenStore

ONE = Scope.session("s1")
KEY = kind(ONE.subject_key, "a")


async def embed(store: foldlog.Store, version: str, vector: bytes = b"\0" * 8) -> None:
    await store.append(KEY, Embedded(version, "model", vector))


async def test_a_read_passes_over_the_vectors_of_a_value(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    version = await store.scoped.write(ONE, "a", 1)
    for _ in range(3):
        await embed(store, version)
    for each in (store, await reopen()):
        assert await each.scoped.read(ONE, "a") == 1
        entry = await each.scoped.entry(ONE, "a")
        assert entry is not None
        assert entry.version == version
        [revision] = await each.scoped.history(ONE, "a")
        assert revision.version == version
        assert await each.scoped.list(ONE) == ["a"]
        assert await each.scoped.read(ONE, "a", at=await each.position()) == 1
        assert await each.at(await each.position()).scoped.read(ONE, "a") == 1
        assert (await each.verify("scoped")).is_good
    later = await store.scoped.write(ONE, "a", 2, expected=version)
    await embed(store, later)
    await store.scoped.delete(ONE, "a", expected=later)
    await embed(store, later)
    assert await (await reopen()).scoped.read(ONE, "a") is None
    assert len(await store.scoped.history(ONE, "a")) == 3


async def test_a_write_that_was_drafted_before_a_vector_still_counts(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    """A vector replaces nothing, whichever of the two comes to the log first."""
    version = await store.scoped.write(ONE, "a", 1)
    async with store.atomic():
        await store.scoped.write(ONE, "a", 2)
        await embed(store, version)
    for each in (store, await reopen()):
        assert await each.scoped.read(ONE, "a", consistency="strong") == 2


async def test_a_fork_reads_values_that_have_vectors(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    version = await store.scoped.write(ONE, "a", 1)
    await embed(store, version)
    await store.fork("s1", to="s2")
    fork = Scope.session("s2")
    await store.append(kind(fork.subject_key, "a"), Embedded(version, "other", b"\0" * 4))
    for each in (store, await reopen()):
        assert await each.scoped.read(fork, "a") == 1
        assert await each.scoped.list(fork) == ["a"]
    await store.scoped.write(fork, "a", 2)
    assert await (await reopen()).scoped.read(fork, "a") == 2
    assert await store.scoped.read(ONE, "a") == 1


async def test_a_vector_is_saved_only_behind_what_it_was_made_of(store: foldlog.Store) -> None:
    scoped = store.scoped
    for key in "ab":
        await scoped.write(ONE, key, key)
    lacking = await scoped._indexes.ask(ONE, "strong", lambda index, now: index.lacking("m", 9))
    assert [(each.key, each.text) for each in lacking] == [("a", "a\na"), ("b", "b\nb")]
    await scoped.erase(ONE, "a")
    made = [(each.key, each.seq, Embedded(each.version, "m", b"1234")) for each in lacking]
    await scoped._keys.add_vectors(ONE, made)
    assert [item.type for item in await store.items(KEY)] == []
    found = [item.type for item in await store.items(kind(ONE.subject_key, "b"))]
    assert found == ["scoped.written", "scoped.embedded"]
    again = await scoped._indexes.ask(ONE, "strong", lambda index, now: index.lacking("m", 9))
    assert again == []


async def test_what_is_cleared_leaves_no_vector(tmp_path: Path) -> None:
    vector = b"unmistakable" * 4
    places = (tmp_path / "data").rglob
    async with foldlog.connect(path=tmp_path / "data") as store:
        for key in "ab":
            version = await store.scoped.write(ONE, key, key)
            await store.append(kind(ONE.subject_key, key), Embedded(version, "m", vector))
        await store.scoped.search(ONE, "a", 1)
        await store.scoped.erase(ONE, "a")
        await store.scoped.search(ONE, "b", 1)
        assert await store.items(KEY) == []
        assert (await store.erase_session("s1")).readable == ()
    holding = [each for each in places("*") if each.is_file() and vector in each.read_bytes()]
    assert holding == []


async def test_searches_of_all_embedders_share_one_index() -> None:
    async with foldlog.memory_store() as store:
        one = store.scoped.with_search(embedder=lambda texts: [[1.0]] * len(texts))
        assert one._indexes is store.scoped._indexes
        assert isinstance(one._indexes, Indexes)
        assert one.with_search(path="elsewhere")._indexes is not one._indexes
