"""What layer0's stores are held to, on every backend: CRUD, prefixes, isolation, writers, views."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import foldlog
from foldlog import InvalidId, PayloadError
from foldlog.scoped import (
    Effect,
    Lifetime,
    MemoryLink,
    Scope,
    ScopedReader,
    ScopedStore,
    StoreOptions,
    VersionConflict,
)
from tests.conftest import OpenStore

ONE, OTHER = Scope.session("s1"), Scope.session("s2")
TRANSIENT = StoreOptions(lifetime=Lifetime.TRANSIENT)
COMPLEX = {
    "messages": [
        {"role": "user", "content": "hello\n\x00 ünï 🎈"},
        {"role": "assistant", "content": ""},
    ],
    "metadata": {"turns": 5, "score": 0.1, "big": 2**63, "none": None, "yes": True, "": []},
}


@pytest.fixture
async def scoped(store: foldlog.Store) -> ScopedStore:
    return store.scoped


@pytest.fixture
async def again(reopen: OpenStore, scoped: ScopedStore) -> ScopedStore:
    """The same scopes, as another process has them."""
    return (await reopen()).scoped


async def test_a_value_is_read_as_it_was_written(scoped: ScopedStore, again: ScopedStore) -> None:
    for value in ("hello", 1, 1.5, True, None, [], {}, COMPLEX, [COMPLEX]):
        await scoped.write(ONE, "key", value)
        for each in (scoped, scoped.reader, again):
            found = await each.read(ONE, "key", consistency="strong")
            assert found == value
            assert type(found) is type(value)


async def test_a_value_that_is_read_is_the_callers_own(scoped: ScopedStore) -> None:
    given = {"list": [1]}
    await scoped.write(ONE, "key", given)
    given["list"].append(2)
    await scoped.list(ONE)
    for _ in range(2):
        found = await scoped.read(ONE, "key")
        assert found == {"list": [1]}
        found["list"].append(3)


async def test_a_key_that_is_missing_is_none(scoped: ScopedStore) -> None:
    assert await scoped.read(ONE, "missing") is None
    assert await scoped.entry(ONE, "missing") is None
    assert await scoped.read(ONE, "missing", StoreOptions()) is None
    assert await scoped.list(ONE) == []
    assert await scoped.history(ONE, "missing") == []
    assert await scoped.traverse(ONE, "missing", None, 3) == []


async def test_a_write_replaces_what_was_there(scoped: ScopedStore, again: ScopedStore) -> None:
    for value in (1, 2, 1):
        await scoped.write(ONE, "key", value)
    for each in (scoped, again):
        assert await each.read(ONE, "key") == 1
        assert await each.list(ONE) == ["key"]


async def test_a_deleted_key_is_gone(scoped: ScopedStore, again: ScopedStore) -> None:
    await scoped.write(ONE, "key", "value")
    await scoped.delete(ONE, "key")
    await scoped.delete(ONE, "key")
    await scoped.delete(ONE, "never there")
    for each in (scoped, again):
        assert await each.read(ONE, "key") is None
        assert await each.list(ONE) == []
    await scoped.write(ONE, "key", "again")
    assert await scoped.read(ONE, "key") == "again"
    assert await again.read(ONE, "key", consistency="strong") == "again"
    assert await again.list(ONE, consistency="strong") == ["key"]


async def test_keys_are_listed_by_prefix_and_sorted(
    scoped: ScopedStore, again: ScopedStore
) -> None:
    keys = ["user:name", "user:email", "config:theme", "user", "user:", "USER:x", "üser:1", "a*.>"]
    for key in keys:
        await scoped.write(ONE, key, 1)
    for each in (scoped, scoped.reader, again):
        assert await each.list(ONE, "") == sorted(keys)
        assert await each.list(ONE, "user:") == ["user:", "user:email", "user:name"]
        assert await each.list(ONE, "user:n") == ["user:name"]
        assert await each.list(ONE, "ü") == ["üser:1"]
        assert await each.list(ONE, "a*") == ["a*.>"]
        assert await each.list(ONE, "z") == []


async def test_scopes_are_isolated(scoped: ScopedStore) -> None:
    scopes = [
        ONE,
        OTHER,
        Scope.workflow("s1"),
        Scope.agent("s1", "a"),
        Scope.agent("s1:a", "a"),
        Scope.global_(),
        Scope.custom("s1"),
    ]
    for number, scope in enumerate(scopes):
        await scoped.write(scope, "key", number)
        await scoped.link(scope, MemoryLink("key", f"to-{number}", "r"))
    for number, scope in enumerate(scopes):
        assert await scoped.read(scope, "key") == number
        assert await scoped.traverse(scope, "key", None, 1) == [f"to-{number}"]
    await scoped.delete(ONE, "key")
    for number, scope in enumerate(scopes[1:], 1):
        assert await scoped.read(scope, "key") == number
        assert await scoped.list(scope) == ["key"]


async def test_writers_do_not_get_in_each_others_way(
    scoped: ScopedStore, again: ScopedStore
) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(40):
            each = scoped if number % 2 else again
            group.create_task(each.write(ONE, f"key-{number:02}", number))
            group.create_task(each.write(ONE, "shared", number))
    for each in (scoped, again):
        assert len(await each.list(ONE, "key-", consistency="strong")) == 40
        for number in range(40):
            assert await each.read(ONE, f"key-{number:02}") == number
    assert await scoped.read(ONE, "shared", consistency="strong") == await again.read(
        ONE, "shared", consistency="strong"
    )


async def test_a_large_value_comes_back(scoped: ScopedStore, again: ScopedStore) -> None:
    value = {"text": "x" * 9_000_000, "n": 1}  # beyond what one message holds
    await scoped.write(ONE, "large", value)
    await scoped.write(ONE, "large", [1])
    await scoped.write(ONE, "large", value)
    for each in (scoped, again):
        assert await each.read(ONE, "large") == value
    assert [len(str(each.value)) for each in await again.history(ONE, "large")][1] == 3


# --- transient ----------------------------------------------------------------------------------


async def test_a_transient_value_is_for_hinted_reads_until_it_is_cleared(
    scoped: ScopedStore, again: ScopedStore
) -> None:
    await scoped.write(ONE, "kept", "kept")
    assert await scoped.write(ONE, "scratch", {"a": 1}, TRANSIENT) == ""
    for each in (scoped, scoped.reader):
        assert await each.read(ONE, "scratch", StoreOptions()) == {"a": 1}
        assert await each.read(ONE, "scratch", TRANSIENT) == {"a": 1}
    assert await scoped.read(ONE, "scratch") is None
    assert await scoped.list(ONE) == ["kept"]
    assert await scoped.search(ONE, "scratch", 5) == []
    assert await scoped.history(ONE, "scratch") == []
    assert await again.read(ONE, "scratch", StoreOptions()) is None
    scoped.clear_transient()
    scoped.clear_transient()
    assert await scoped.read(ONE, "scratch", StoreOptions()) is None
    assert await scoped.read(ONE, "kept", StoreOptions()) == "kept"


async def test_a_transient_value_never_reaches_the_log(store: foldlog.Store) -> None:
    await store.scoped.write(ONE, "scratch", "secret", TRANSIENT)
    await store.scoped.apply([Effect.WriteMemory(ONE, "other", "secret", TRANSIENT)])
    [stream] = (await store._core.log.info()).streams
    assert stream.messages == 0
    assert await store.scoped.read(ONE, "other", StoreOptions()) == "secret"


async def test_what_was_written_last_is_what_a_hinted_read_sees(scoped: ScopedStore) -> None:
    await scoped.write(ONE, "key", "scratch", TRANSIENT)
    await scoped.write(ONE, "key", "stored")
    assert await scoped.read(ONE, "key", StoreOptions()) == "stored"
    await scoped.write(ONE, "key", "scratch", TRANSIENT)
    assert await scoped.read(ONE, "key", StoreOptions()) == "scratch"
    assert await scoped.read(ONE, "key") == "stored"
    await scoped.delete(ONE, "key")
    assert await scoped.read(ONE, "key", StoreOptions()) is None


# --- the reader ---------------------------------------------------------------------------------

WRITES = {
    "write",
    "write_many",
    "delete",
    "link",
    "unlink",
    "apply",
    "end_session",
    "erase",
}


async def test_a_reader_reads_what_the_store_reads_and_cannot_write(scoped: ScopedStore) -> None:
    reader = scoped.reader
    assert type(reader) is ScopedReader
    assert isinstance(scoped, ScopedReader)
    methods = {name for name in dir(reader) if not name.startswith("_")}
    assert not methods & WRITES
    assert {name for name in dir(scoped) if not name.startswith("_")} >= methods | WRITES


def test_arguments_stand_in_the_crates_order() -> None:
    def names(method: Callable[..., Any]) -> list[str]:
        found = inspect.signature(method).parameters.values()
        return [each.name for each in found if each.kind is each.POSITIONAL_OR_KEYWORD][1:]

    assert names(ScopedStore.delete) == ["scope", "key"]
    assert names(ScopedStore.list) == ["scope", "prefix"]
    assert names(ScopedStore.read) == ["scope", "key", "options"]
    assert names(ScopedStore.write) == ["scope", "key", "value", "options"]
    assert names(ScopedStore.clear_transient) == []
    assert names(ScopedStore.link) == ["scope", "link"]
    assert names(ScopedStore.unlink) == ["scope", "from_key", "to_key", "relation"]
    assert names(ScopedStore.traverse) == ["scope", "from_key", "relation", "max_depth"]
    assert names(ScopedStore.search) == ["scope", "query", "limit", "options"]


# --- compare-and-set ----------------------------------------------------------------------------


async def test_a_write_that_expects_is_refused_where_it_is_wrong(scoped: ScopedStore) -> None:
    first = await scoped.write(ONE, "key", 1, expected=None)
    with pytest.raises(VersionConflict) as refused:
        await scoped.write(ONE, "key", 2, expected=None)
    assert (refused.value.expected, refused.value.actual) == (None, first)
    second = await scoped.write(ONE, "key", 2, expected=first)
    with pytest.raises(VersionConflict) as refused:
        await scoped.write(ONE, "key", 3, expected=first)
    assert refused.value.actual == second
    with pytest.raises(VersionConflict):
        await scoped.delete(ONE, "key", expected=first)
    entry = await scoped.entry(ONE, "key")
    assert entry is not None
    assert (entry.value, entry.version) == (2, second)
    await scoped.delete(ONE, "key", expected=second)
    with pytest.raises(VersionConflict) as refused:
        await scoped.write(ONE, "key", 4, expected=second)
    assert refused.value.actual is None
    await scoped.write(ONE, "key", 4, expected=None)
    assert [each.value for each in await scoped.history(ONE, "key")] == [1, 2, None, 4]


async def test_of_writers_who_expect_the_same_one_wins(
    scoped: ScopedStore, again: ScopedStore
) -> None:
    version = await scoped.write(ONE, "key", "first")

    async def attempt(number: int) -> str | None:
        each = scoped if number % 2 else again
        try:
            return await each.write(ONE, "key", number, expected=version)
        except VersionConflict:
            return None

    won = [found for found in await asyncio.gather(*map(attempt, range(12))) if found]
    entry = await again.entry(ONE, "key")
    assert entry is not None
    assert won == [entry.version]


async def test_counters_that_compare_and_set_lose_nothing(
    scoped: ScopedStore, again: ScopedStore
) -> None:
    async def count(each: ScopedStore) -> None:
        for _ in range(5):
            while True:
                entry = await each.entry(ONE, "n")
                value, version = (entry.value, entry.version) if entry else (0, None)
                try:
                    await each.write(ONE, "n", value + 1, expected=version)
                except VersionConflict:
                    continue
                break

    await asyncio.gather(*(count(each) for each in (scoped, again, scoped)))
    assert await scoped.read(ONE, "n", consistency="strong") == 15


# --- many at once -------------------------------------------------------------------------------


async def test_many_values_are_one_append(store: foldlog.Store) -> None:
    versions = await store.scoped.write_many(ONE, {"a": 1, "b": [2], "c": None})
    assert list(versions) == ["a", "b", "c"]
    assert await store.scoped.list(ONE) == ["a", "b", "c"]
    entry = await store.scoped.entry(ONE, "b")
    assert entry is not None
    assert (entry.value, entry.version) == ([2], versions["b"])


async def test_of_many_values_none_is_written_if_one_cannot_be(store: foldlog.Store) -> None:
    scoped = store.scoped
    with pytest.raises(PayloadError):
        await scoped.write_many(ONE, {"a": 1, "b": object()})
    with pytest.raises(InvalidId):
        await scoped.write_many(ONE, {"a": "x" * 300_000, "": 2})
    with pytest.raises(foldlog.AppendFailed):
        await scoped.write_many(ONE, {"a": "x" * 300_000} | dict.fromkeys(map(str, range(1001))))
    assert await scoped.list(ONE) == []
    assert await scoped.read(ONE, "a") is None
    if hasattr(store._core.log, "blobs"):
        assert await store._core.log.blobs.names() == []  # what was spilled for it is gone, too


async def test_effects_are_applied_in_order_and_together(scoped: ScopedStore) -> None:
    await scoped.write(ONE, "old", 1)
    versions = await scoped.apply(
        [
            Effect.WriteMemory(ONE, "a", 1),
            Effect.WriteMemory(ONE, "a", 2),
            Effect.WriteMemory(OTHER, "a", "x" * 300_000),
            Effect.DeleteMemory(ONE, "old"),
            Effect.LinkMemory(ONE, MemoryLink("a", "b", "r")),
            Effect.LinkMemory(ONE, MemoryLink("a", "c", "r")),
            Effect.UnlinkMemory(ONE, "a", "b", "r"),
        ]
    )
    assert [bool(version) for version in versions] == [True] * 4 + [False] * 3
    assert await scoped.list(ONE) == ["a"]
    assert await scoped.read(ONE, "a") == 2
    assert await scoped.read(OTHER, "a") == "x" * 300_000
    assert await scoped.traverse(ONE, "a", "r", 1) == ["c"]
    assert await scoped.apply([]) == []


async def test_effects_on_two_shards_are_refused_whole(reopen: OpenStore) -> None:
    scoped = (await reopen(shards=4)).scoped
    scopes = [Scope.session(f"s{number}") for number in range(8)]
    with pytest.raises(foldlog.Misuse):
        await scoped.apply([Effect.WriteMemory(scope, "a", 1) for scope in scopes])
    for scope in scopes:
        assert await scoped.list(scope) == []
        await scoped.write(scope, "a", scope.ids[0])
    assert [await scoped.read(scope, "a") for scope in scopes] == [each.ids[0] for each in scopes]


# --- what is refused ----------------------------------------------------------------------------


async def test_bad_arguments_are_refused_and_nothing_is_written(scoped: ScopedStore) -> None:
    bad: Any = "session"
    calls: list[Callable[[], Any]] = [
        lambda: scoped.write(bad, "key", 1),
        lambda: scoped.write(ONE, "", 1),
        lambda: scoped.write(ONE, "\ud800", 1),
        lambda: scoped.write(ONE, "key", object()),
        lambda: scoped.write(ONE, "key", 1, StoreOptions(ttl=-1)),
        lambda: scoped.write(ONE, "", 1, TRANSIENT),
        lambda: scoped.write_many(ONE, bad),
        lambda: scoped.apply([bad]),
        lambda: scoped.apply([Effect.LinkMemory(ONE, bad)]),
        lambda: scoped.read(bad, "key"),
        lambda: scoped.read(Scope("session", ("a", "b", "c")), "key"),
        lambda: scoped.read(Scope("session:s1"), "key"),
        lambda: scoped.list(bad),
        lambda: scoped.list(ONE, 7),  # type: ignore[arg-type]
        lambda: scoped.search(ONE, 7, 5),  # type: ignore[arg-type]
        lambda: scoped.search(ONE, "q", "5"),  # type: ignore[arg-type]
        lambda: scoped.link(ONE, MemoryLink("", "b", "r")),
        lambda: scoped.link(ONE, MemoryLink("a", "b", "r", object())),
        lambda: scoped.traverse(ONE, "a", None, -1),
    ]
    for call in calls:
        with pytest.raises((PayloadError, InvalidId)):
            await call()
    with pytest.raises(foldlog.Misuse):
        await scoped.write(ONE, "key", 1, TRANSIENT, expected=None)
    assert await scoped.list(ONE) == []
