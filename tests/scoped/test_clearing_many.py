"""Clearing many keys at once: nothing else goes, nothing half stays, whatever comes in between."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import foldlog
from foldlog import LogUnavailable, PastErased
from foldlog.scoped import MemoryLink, Scope, VersionConflict
from foldlog.store import clearing
from foldlog_projections.scoped import scoped
from tests.conftest import OpenStore

ONE = Scope.session("s1")
VALUES = {f"k{n}": {"number": n} for n in range(60)} | {"x" * 300: 1, "a.*": 2, ">": 3}


async def stored(store: foldlog.Store, scope: Scope) -> dict[str, list[str]]:
    """The types of what the log holds of each subject of a scope, by name."""
    log = store._core.log
    found: dict[str, list[str]] = {}
    for subject in await log.subjects("scoped"):
        if subject.keys[0] == scope.subject_key:
            async for page in log.read(subject):
                types = [each.type for record in page for each in record.envelopes]
                found.setdefault(subject.name, []).extend(types)
    return found


def counted(store: foldlog.Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The purges of the log from now on."""
    kind, asked = type(store._core.log), list[str]()
    below = kind.purge

    async def purge(self: Any, which: Any, **bounds: Any) -> None:
        asked.append(type(which).__name__)
        await below(self, which, **bounds)

    monkeypatch.setattr(kind, "purge", purge)
    return asked


async def test_a_scope_goes_in_one_purge_however_many_keys_it_has(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        await store.scoped.write_many(ONE, VALUES)
    await store.scoped.delete(ONE, "k7")
    asked = counted(store, monkeypatch)
    await store.scoped.erase(ONE)
    assert asked == ["Branch"]
    assert await stored(store, ONE) == {
        store._core.subject("scoped", ONE.subject_key, key).name: ["subject.cleared"]
        for key in VALUES
    }
    assert await store.scoped.list(ONE) == []
    assert store._core.hot_views._hot.bytes < 20_000  # no key was folded to be cleared


async def test_scopes_that_are_called_alike_stay(store: foldlog.Store) -> None:
    names = ["a", "a.b", "a.*", "a.>", "*", ">", "a:b", "A", "a b", "=2E", "x" * 121, "x" * 122]
    scopes = [Scope.custom(name) for name in names]
    scopes += [Scope.session("a"), Scope.agent("a", "b"), Scope.agent("a:b", "c")]
    scopes += [Scope.workflow("a"), Scope.global_()]
    for scope in scopes:
        await scope_filled(store, scope)
    for gone, scope in enumerate(scopes):
        await store.scoped.erase(scope)
        assert await store.scoped.list(scope) == []
        for other in scopes[gone + 1 :]:
            assert await store.scoped.list(other, consistency="strong") == [">", "a.b", "k"]
            assert len(await store.scoped.history(other, "k")) == 2


async def scope_filled(store: foldlog.Store, scope: Scope) -> None:
    for number in range(2):
        await store.scoped.write_many(scope, {"k": number, "a.b": number, ">": number})


@pytest.mark.parametrize("cut_at", ["bury", "buried", "purge", "purged"])
async def test_a_clearing_that_was_cut_short_is_made_good_by_another(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch, cut_at: str
) -> None:
    store = await reopen()
    await store.scoped.write_many(ONE, VALUES | {"large": "x" * 300_000})
    await store.scoped.write_many(ONE, VALUES)

    bury = clearing._append_tombstones

    async def cut(*args: Any, **options: Any) -> Any:
        if cut_at == "buried":
            await bury(*args, **options)
        if cut_at == "purged":
            await below(*args, **options)
        raise LogUnavailable("cut short")

    if cut_at.startswith("purge"):
        kind = type(store._core.log)
        below = kind.purge
        monkeypatch.setattr(kind, "purge", cut)
    else:
        monkeypatch.setattr(clearing, "_append_tombstones", cut)
    with pytest.raises(LogUnavailable):
        await store.scoped.erase(ONE)
    monkeypatch.undo()

    again = (await reopen()).scoped
    assert await again.list(ONE) == (sorted([*VALUES, "large"]) if cut_at == "bury" else [])
    for key in VALUES:  # no key is there by half
        history = [each.value for each in await again.history(ONE, key)]
        assert history in ([], [VALUES[key]] * 2)
    await again.erase(ONE)
    assert await again.list(ONE) == []
    assert {*map(tuple, (await stored(store, ONE)).values())} == {("subject.cleared",)}
    if hasattr(store._core.log, "blobs"):
        assert await store._core.log.blobs.names() == []


@pytest.mark.parametrize("when", ["before", "after"])
async def test_what_is_written_while_keys_get_their_tombstones_goes_whole_or_stays_whole(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    scoped = store.scoped
    await scoped.write_many(ONE, {"a": 1, "b": 2})
    interfering = [{"a": 3, "d": 4}]
    bury = clearing._append_tombstones

    async def interfered(*args: Any, **options: Any) -> None:
        if when == "before" and interfering:
            await scoped.write_many(ONE, interfering.pop())
        await bury(*args, **options)
        if when == "after" and interfering:
            await scoped.write_many(ONE, interfering.pop())

    monkeypatch.setattr(clearing, "_append_tombstones", interfered)
    asked = counted(store, monkeypatch)
    await scoped.erase(ONE)
    assert asked == ["Branch"]
    assert interfering == []
    stay = {} if when == "before" else {"a": 3, "d": 4}
    for one in (scoped, scoped.with_search()):
        assert await one.list(ONE) == [*stay]
    for key in "abd":
        history = [each.value for each in await scoped.history(ONE, key)]
        assert history[-1:] == ([stay[key]] if key in stay else [])
        assert 1 not in history


async def test_no_key_goes_without_a_tombstone(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.scoped.write_many(ONE, {"a": 1, "b": 2})
    kind = type(store._core.log)
    purge, bury, interfering = kind.purge, clearing._append_tombstones, [{"c": 3, "a": 2}]

    async def interfered(*args: Any, **options: Any) -> None:
        if interfering:
            await store.scoped.write_many(ONE, interfering.pop())
        await bury(*args, **options)

    async def cut(*args: Any, **options: Any) -> None:
        await purge(*args, **options)
        raise LogUnavailable("cut short")

    monkeypatch.setattr(clearing, "_append_tombstones", interfered)
    monkeypatch.setattr(kind, "purge", cut)
    with pytest.raises(LogUnavailable):
        await store.scoped.erase(ONE)
    held = await stored(store, ONE)
    assert [types[-1] for types in held.values()] == ["subject.cleared"] * 3


async def test_two_may_clear_a_scope_while_others_write_to_it(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = (await reopen()).scoped
    await store.scoped.write_many(ONE, VALUES)

    async def write() -> None:
        for number in range(40):
            await other.write(ONE, f"k{number % 8}", number)

    await asyncio.gather(store.scoped.erase(ONE), other.erase(ONE), write())
    for each in (store.scoped, other):
        listed = await each.list(ONE, consistency="strong")
        for key in VALUES:  # what is listed can be read, and nothing else
            assert (await each.entry(ONE, key) is not None) == (key in listed)


async def test_a_late_writer_finds_nothing_to_go_on_from(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    late = (await reopen()).scoped
    version = await late.write(ONE, "a", 1)
    await late.list(ONE)
    await store.scoped.erase(ONE)
    with pytest.raises(VersionConflict):
        await late.write(ONE, "a", 2, expected=version)
    assert await late.list(ONE, consistency="strong") == []
    await late.write(ONE, "a", 3, expected=None)
    assert [each.value for each in await store.scoped.history(ONE, "a")] == [3]


@pytest.mark.parametrize("how", ["delete", "expected", "write", "read"])
@pytest.mark.parametrize("linked", [False, True])
async def test_a_scope_that_another_clears_twice_is_not_taken_for_a_restored_log(
    store: foldlog.Store, reopen: OpenStore, how: str, linked: bool
) -> None:
    one, other = store.scoped, await reopen()
    key = scoped.kind(ONE.subject_key, "a")
    for number in range(2):
        version = await one.write(ONE, "a", number)
        await other.scoped.write(ONE, "a", number, expected=version)  # it has the key in memory
        for _ in range(2):
            await one.erase(ONE)
            if number:
                await other.scoped.delete(ONE, "a")
        if linked:
            await one.link(ONE, MemoryLink("a", "b", "r"))
        if how == "delete":
            await other.scoped.delete(ONE, "a")
        elif how == "expected":
            with pytest.raises(VersionConflict):
                await other.scoped.write(ONE, "a", 2, expected=version)
            await other.scoped.write(ONE, "a", 2, expected=None)
        elif how == "write":
            await other.scoped.write(ONE, "a", 2)
            await other.scoped.delete(ONE, "a")
        held = await other._core.read(key.kind, *key.keys, consistency="strong")
        assert (held.state is None) == (how in ("delete", "read"))
        for each in (one, other.scoped):
            found = await each.read(ONE, "a", consistency="strong")
            assert found == (2 if how == "expected" else None)


async def test_the_past_of_a_scope_that_was_cleared_is_told_as_erased(
    store: foldlog.Store,
) -> None:
    await store.scoped.write_many(ONE, {"a": 1, "b": 1})
    await store.scoped.write(Scope.global_(), "a", "kept")
    before = await store.position()
    await store.scoped.erase(ONE)
    await store.scoped.write(ONE, "b", 2)
    between = await store.position()
    await store.scoped.erase(ONE)
    await store.scoped.write(ONE, "c", 3)
    for position, key in ((before, "a"), (before, "b"), (between, "b")):
        past = store.at(position).scoped
        for ask in (past.read, past.entry, past.history):
            with pytest.raises(PastErased):
                await ask(ONE, key)
        with pytest.raises(PastErased):
            await past.list(ONE)
    past = store.at(before).scoped
    assert await past.read(Scope.global_(), "a") == "kept"
    assert await past.read(Scope.global_(), "none") is None
    assert await past.history(Scope.global_(), "none") == []
    assert await store.at(await store.position()).scoped.read(ONE, "c") == 3


@pytest.mark.long
async def test_twenty_thousand_keys_are_cleared_and_their_neighbours_stay(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await reopen()
    neighbour = Scope.session("s10")
    for start in range(0, 20_000, 500):
        await store.scoped.write_many(ONE, {f"k{n}": n for n in range(start, start + 500)})
    await store.scoped.write_many(neighbour, {f"k{n}": n for n in range(100)})
    asked = counted(store, monkeypatch)
    await store.scoped.erase(ONE)
    assert asked == ["Branch"]
    assert await store.scoped.list(ONE) == []
    assert len(await store.scoped.list(neighbour, consistency="strong")) == 100
    for key in ("k0", "k12345", "k19999"):
        assert await store.scoped.history(ONE, key) == []
    assert len(await store.scoped.history(neighbour, "k99")) == 1
