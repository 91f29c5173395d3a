"""Clearing: a scope goes whole, with what is kept of it beside the log."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog import AppendUnknown
from foldlog.log.memory import MemoryLog
from foldlog.scoped import Lifetime, MemoryLink, Scope, SearchFailed, StoreOptions
from foldlog.scoped.keys import Keys
from foldlog.store import clearing
from foldlog_projections.scoped.scoped import kind

ONE, OTHER = Scope.session("s1"), Scope.session("s2")
SECRET = "unmistakable"


async def test_what_is_written_before_a_scope_has_its_tombstones_goes_whole(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    scoped = store.scoped
    await scoped.write_many(ONE, {"a": 1, "b": 2})
    interfering = [("c", 4), ("a", 3)]  # from the last: a key that is known, and one that is not
    bury = clearing._append_tombstones

    async def interfered(*args: Any, **options: Any) -> None:
        if interfering:
            await scoped.write(ONE, *interfering.pop())
        await bury(*args, **options)

    monkeypatch.setattr(clearing, "_append_tombstones", interfered)
    await scoped.erase(ONE)
    assert interfering == []
    assert await scoped.list(ONE) == []
    for key in ("a", "b", "c"):
        assert await scoped.entry(ONE, key) is None
        assert await scoped.history(ONE, key) == []


@pytest.mark.parametrize("how", ["clear_session", "erase_session"])
async def test_a_session_that_is_cleared_takes_its_scope_along(
    store: foldlog.Store, how: str
) -> None:
    scoped = store.scoped
    await scoped.write_many(ONE, {"a": "word", "big": "x" * 300_000, "gone": 1})
    await scoped.delete(ONE, "gone")
    await scoped.link(ONE, MemoryLink("a", "big", "r"))
    await scoped.write(ONE, "draft", 1, StoreOptions(lifetime=Lifetime.TRANSIENT))
    await scoped.write(OTHER, "a", "kept")
    report = await getattr(store, how)(ONE.ids[0])
    assert await scoped.list(ONE) == []
    assert await scoped.traverse(ONE, "a", None, 1) == []
    assert await scoped.search(ONE, "word", 5) == []
    for key in ("a", "big", "gone", "draft"):
        assert await scoped.read(ONE, key, StoreOptions()) is None
        assert await scoped.history(ONE, key) == []
    assert await scoped.read(OTHER, "a") == "kept"
    if hasattr(store._core.log, "blobs"):
        assert await store._core.log.blobs.names() == []
    if report is not None:
        assert report.removed["scoped"] == 5
        assert report.readable == ()


async def test_a_store_that_is_cleared_has_no_transient_values(store: foldlog.Store) -> None:
    await store.scoped.write(ONE, "a", 1, StoreOptions(lifetime=Lifetime.TRANSIENT))
    await store.clear(store.log.namespace.name)
    assert await store.scoped.read(ONE, "a", StoreOptions()) is None


def holding(directory: Path) -> list[str]:
    """The files that hold the secret."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [path.name for path in files if SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize("how", ["clear", "clear_session", "erase_session", "clear all"])
async def test_a_search_index_forgets_what_is_cleared(tmp_path: Path, how: str) -> None:
    async with foldlog.connect(path=tmp_path / "data") as store:
        await store.scoped.write(ONE, "a", f"{SECRET} word")
        await store.scoped.write(OTHER, "b", "another word")
        for scope in (ONE, OTHER):
            assert len(await store.scoped.search(scope, "word", 5)) == 1
        assert holding(tmp_path / "data" / "search") != []
    async with foldlog.connect(path=tmp_path / "data") as store:
        # By a process that has not opened the index.
        if how == "clear":
            await store.scoped.erase(ONE)
        elif how == "clear all":
            await store.clear(store.log.namespace.name)
        else:
            await getattr(store, how)("s1")
        assert holding(tmp_path / "data" / "search") == []
        assert await store.scoped.search(ONE, "word", 5) == []
        assert len(await store.scoped.search(OTHER, "word", 5)) == (how != "clear all")
        await store.scoped.write(ONE, "a", "word again")
        assert len(await store.scoped.search(ONE, "word", 5)) == 1


async def test_another_who_has_the_index_open_goes_on_with_it(tmp_path: Path) -> None:
    log = MemoryLog()
    async with foldlog.memory_store(log=log) as one, foldlog.memory_store(log=log) as two:
        first, second = (each.scoped.with_search(path=tmp_path) for each in (one, two))
        await first.write_many(ONE, {"a": f"{SECRET} word", "b": "word"})
        assert len(await second.search(ONE, "word", 5)) == 2
        await first.erase(ONE)
        assert holding(tmp_path) == []
        await first.write(ONE, "c", "word")
        for each in (second, first):
            assert [found.key for found in await each.search(ONE, "word", 5)] == ["c"]


async def test_an_index_that_is_damaged_is_removed_by_clearing(tmp_path: Path) -> None:
    async with foldlog.memory_store() as store:
        scoped = store.scoped.with_search(path=tmp_path)
        await scoped.write(ONE, "a", "word")
        await scoped.search(ONE, "word", 5)
        await scoped.forget(None)
        [path] = list(tmp_path.glob("*.db"))  # noqa: ASYNC240 - one look at a local directory
        path.write_bytes(f"no database, and {SECRET}".encode() * 1000)
        await scoped.erase(ONE)
        assert holding(tmp_path) == []


async def test_an_index_that_cannot_be_wiped_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with foldlog.memory_store() as store:
        scoped = store.scoped.with_search(path=tmp_path)
        await scoped.write(ONE, "a", "word")
        await scoped.search(ONE, "word", 5)

        def refuse(path: Path) -> None:
            raise OSError(f"{path} is in use")

        monkeypatch.setattr("foldlog.scoped.indexes.wipe", refuse)
        with pytest.raises(SearchFailed):
            await scoped.erase(ONE)
        monkeypatch.undo()
        await scoped.erase(ONE)
        assert await scoped.search(ONE, "word", 5) == []


async def test_an_index_that_is_being_read_is_not_taken_for_wiped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foldlog.scoped.documents._LOCK_SECONDS", 0.05)
    async with foldlog.memory_store() as store:
        scoped = store.scoped.with_search(path=tmp_path)
        await scoped.write(ONE, "a", SECRET)
        await scoped.search(ONE, SECRET, 5)
        [path] = tmp_path.glob("*.db")  # noqa: ASYNC240 - one look at a local directory
        other = sqlite3.connect(path, isolation_level=None)
        try:
            other.execute("BEGIN")
            assert other.execute("SELECT key FROM entries").fetchall() == [("a",)]
            with pytest.raises(SearchFailed, match="being read"):
                await scoped.erase(ONE)
            assert holding(tmp_path) != []
        finally:
            other.close()
        await scoped.erase(ONE)
        assert holding(tmp_path) == []


async def test_a_value_whose_blob_goes_while_it_is_read_is_gone_and_no_damage(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    scoped = store.scoped
    monkeypatch.setattr("foldlog.scoped.keys.BLOB_BYTES", 10)
    payload, cleared = Keys.payload, list[str]()

    async def overtaken(keys: Keys, scope: Scope, key: str, held: Any) -> bytes:
        if not cleared:
            cleared.append(held.version)
            await clearing.clear(store._core, [clearing.Prefix(kind, (ONE.subject_key,))])
        return await payload(keys, scope, key, held)

    monkeypatch.setattr(Keys, "payload", overtaken)
    for ask in (scoped.read, scoped.entry):
        await scoped.write(ONE, "a", "word " + "x" * 50)
        cleared.clear()
        assert await ask(ONE, "a") is None
        assert len(cleared) == 1
    await scoped.write_many(ONE, {"a": "word " + "x" * 50, "b": "word " + "y" * 50})
    cleared.clear()
    await scoped.search(ONE, "word", 5)  # what was there when it began
    assert len(cleared) == 1
    assert await scoped.search(ONE, "word", 5) == []


async def test_a_write_that_may_be_stored_has_the_next_read_ask_the_log(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.scoped.write(ONE, "a", 1)
    await store.scoped.list(ONE)
    unsettled: list[str] = []
    monkeypatch.setattr(store._core.hot_views, "unsettled", lambda s: unsettled.append(s.family))

    async def unknown(*args: Any, **options: Any) -> Any:
        raise AppendUnknown([], "the answer was lost")

    monkeypatch.setattr(store._core.log, "append", unknown)
    with pytest.raises(AppendUnknown):
        await store.scoped.write(ONE, "b", 2)
    assert unsettled == ["scoped"]
