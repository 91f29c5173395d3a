"""Every hint is honoured: lifetimes end, time runs out, tiers and salience decide what stays."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

import foldlog
from foldlog.scoped import (
    ContentKind,
    Effect,
    Lifetime,
    MemoryLink,
    MemoryTier,
    Scope,
    ScopedStore,
    StoreOptions,
    VersionConflict,
    keys as scoped_keys,
)
from foldlog.scoped.cache import Cache
from foldlog.subjects import Namespace, Subject
from tests.conftest import OpenStore

ONE = Scope.session("s1")
OF_SESSION = StoreOptions(lifetime=Lifetime.SESSION)
DURABLE = StoreOptions(lifetime=Lifetime.DURABLE)


# --- session ------------------------------------------------------------------------------------


async def test_a_session_takes_what_was_written_for_it_along(store: foldlog.Store) -> None:
    scoped = store.scoped
    await scoped.write_many(ONE, {f"own-{number:03}": number for number in range(300)}, OF_SESSION)
    await scoped.write_hinted(ONE, "durable", 1, DURABLE)
    await scoped.write(ONE, "plain", 2)
    await scoped.write_hinted(ONE, "was", 3, OF_SESSION)
    await scoped.write(ONE, "was", 4)  # no longer the session's own
    await scoped.write_hinted(Scope.session("s2"), "other", 5, OF_SESSION)
    assert await scoped.end_session("s1") == 300
    assert await scoped.end_session("s1") == 0
    assert await scoped.list(ONE) == ["durable", "plain", "was"]
    assert await scoped.read(ONE, "own-007") is None
    assert await scoped.read(Scope.session("s2"), "other") == 5
    await scoped.write_hinted(ONE, "own-007", 7, OF_SESSION)
    assert await scoped.read(ONE, "own-007") == 7


async def test_what_a_session_wrote_elsewhere_ends_there(store: foldlog.Store) -> None:
    scope = Scope.agent("wf", "a")
    await store.scoped.write_hinted(scope, "own", 1, OF_SESSION)
    await store.scoped.write(scope, "kept", 2)
    assert await store.scoped.end_session(scope) == 1
    assert await store.scoped.list(scope) == ["kept"]


@pytest.mark.parametrize("moment", ["before the keys are looked at", "before they are deleted"])
async def test_ending_a_session_spares_what_is_rewritten_meanwhile(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    scoped = store.scoped
    await scoped.write_many(ONE, {"a": 1, "b": 1}, OF_SESSION)
    owner: Any = store._core if "deleted" in moment else scoped_keys
    name = "append_at_once" if "deleted" in moment else "decide_drafts"
    going_on = getattr(owner, name)

    async def late(*args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        await scoped.write(ONE, "a", "durable now")
        return await going_on(*args, **options)

    monkeypatch.setattr(owner, name, late)
    assert await scoped.end_session("s1") == 1
    assert await scoped.list(ONE) == ["a"]
    assert await scoped.read(ONE, "a") == "durable now"


async def test_a_hinted_read_sees_the_lifetime_and_kind_it_asks_for(store: foldlog.Store) -> None:
    scoped = store.scoped
    options = StoreOptions(lifetime=Lifetime.SESSION, content_kind=ContentKind.custom("x"))
    await scoped.write_hinted(ONE, "key", 1, options)
    await scoped.write(ONE, "plain", 2)

    async def read(key: str, **hints: Any) -> Any:
        return await scoped.read_hinted(ONE, key, StoreOptions(**hints))

    assert await read("key") == 1
    assert await read("key", lifetime=Lifetime.SESSION) == 1
    assert await read("key", lifetime=Lifetime.DURABLE) is None
    assert await read("key", lifetime=Lifetime.TRANSIENT) is None
    assert await read("key", content_kind=ContentKind.custom("x")) == 1
    assert await read("key", content_kind=ContentKind.EPISODIC) is None
    assert await read("plain", lifetime=Lifetime.DURABLE) == 2
    assert await read("plain", content_kind=ContentKind.EPISODIC) is None


# --- time ---------------------------------------------------------------------------------------


async def test_a_value_is_over_when_its_time_is(
    store: foldlog.Store, advance_clock: Callable[[float], None]
) -> None:
    scoped = store.scoped
    await scoped.write_hinted(ONE, "brief", {"a": "word"}, StoreOptions(ttl=60_000))
    await scoped.write(ONE, "kept", "word")
    await scoped.link(ONE, MemoryLink("kept", "brief", "r"))
    await scoped.link(ONE, MemoryLink("brief", "far", "r"))

    async def seen() -> tuple[Any, ...]:
        return (
            await scoped.read(ONE, "brief"),
            await scoped.read_hinted(ONE, "brief", StoreOptions()),
            (await scoped.entry(ONE, "brief")) is not None,
            await scoped.list(ONE),
            [found.key for found in await scoped.search(ONE, "word", 5)],
            await scoped.traverse(ONE, "kept", None, 2),
            [link.to_key for link in await scoped.links(ONE, "kept")],
        )

    there = ({"a": "word"},) * 2 + (True, ["brief", "kept"], ["kept", "brief"])
    assert await seen() == (*there, ["brief", "far"], ["brief"])
    advance_clock(59)
    assert await seen() == (*there, ["brief", "far"], ["brief"])
    advance_clock(1)
    assert await seen() == (None, None, False, ["kept"], ["kept"], [], [])
    assert [each.value for each in await scoped.history(ONE, "brief")] == [{"a": "word"}]
    with pytest.raises(VersionConflict) as refused:
        await scoped.write(ONE, "brief", 1, expected="x")
    assert refused.value.actual is None
    await scoped.delete(ONE, "brief")  # there is none
    assert len(await scoped.history(ONE, "brief")) == 1


@pytest.mark.parametrize("hot", [True, False])
async def test_time_runs_from_the_logs_record_to_the_millisecond(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, hot: bool
) -> None:
    scoped = store.scoped
    await scoped.write_hinted(ONE, "key", 1, StoreOptions(ttl=1500))
    entry = await scoped.entry(ONE, "key")
    assert entry is not None
    end = entry.recorded_at + dt.timedelta(milliseconds=1500)
    if hot:
        await scoped.list(ONE)
    for offset, value in ((-0.001, 1), (0.001, None)):
        moment = end.timestamp() + offset
        monkeypatch.setattr("time.time", lambda moment=moment: moment)
        assert await scoped.read(ONE, "key") == value
    monkeypatch.undo()
    step = dt.timedelta(milliseconds=1)
    assert await scoped.read(ONE, "key", at=end - step) == 1
    assert await scoped.read(ONE, "key", at=end) is None


async def test_writing_again_gives_new_time_and_new_hints(
    store: foldlog.Store, advance_clock: Callable[[float], None]
) -> None:
    scoped = store.scoped
    await scoped.write_hinted(ONE, "key", 1, StoreOptions(ttl=60_000))
    await scoped.write_hinted(ONE, "none", 1, StoreOptions(ttl=0))
    assert await scoped.read(ONE, "none") is None
    await scoped.write(ONE, "key", 2)
    advance_clock(3600)
    assert await scoped.read(ONE, "key") == 2
    assert await scoped.list(ONE) == ["key"]


async def test_the_longest_time_of_layer0_never_ends(
    store: foldlog.Store, advance_clock: Callable[[float], None]
) -> None:
    written = {"type": "write_memory", "scope": {"session": "s1"}, "key": "key", "value": 1}
    effect = Effect.from_json(written | {"ttl": 2**64 - 1})
    assert isinstance(effect, Effect.WriteMemory)
    await store.scoped.apply([effect])
    await store.scoped.write_hinted(ONE, "other", 2, StoreOptions(ttl=2**64 - 1))
    advance_clock(10**10)
    assert await store.scoped.list(ONE) == ["key", "other"]
    entry = await store.scoped.entry(ONE, "other")
    assert entry is not None
    assert (entry.value, entry.options.ttl) == (2, None)


async def test_a_transient_value_has_a_time_too(
    store: foldlog.Store, advance_clock: Callable[[float], None]
) -> None:
    options = StoreOptions(lifetime=Lifetime.TRANSIENT, ttl=1000)
    await store.scoped.apply([Effect.WriteMemory(ONE, "key", 1, options)])
    assert await store.scoped.read_hinted(ONE, "key", StoreOptions()) == 1
    advance_clock(1)
    assert await store.scoped.read_hinted(ONE, "key", StoreOptions()) is None


# --- what stays in memory -----------------------------------------------------------------------


class Counting:
    """How often a scope's keys were asked for on the log."""

    def __init__(self, scoped: ScopedStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        last = scoped._keys.last

        async def counted(scope: Scope, key: str) -> Any:
            self.asked.append(key)
            return await last(scope, key)

        monkeypatch.setattr(scoped._keys, "last", counted)


async def test_hot_values_answer_from_memory_and_cold_ones_never(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await reopen()).scoped.apply(
        Effect.WriteMemory(ONE, str(tier), 1, StoreOptions(tier=tier)) for tier in MemoryTier
    )
    scoped = (await reopen()).scoped
    await scoped.list(ONE)
    counting = Counting(scoped, monkeypatch)
    for _ in range(3):
        for tier in MemoryTier:
            assert await scoped.read(ONE, str(tier)) == 1
    assert counting.asked == ["hot", "warm", "cold", "cold", "cold"]


async def test_a_value_in_memory_is_the_present_one(reopen: OpenStore) -> None:
    one, other = (await reopen()).scoped, (await reopen()).scoped
    await one.list(ONE)
    for number in range(5):
        await other.write(ONE, "key", number)
        assert await one.read(ONE, "key", consistency="strong") == number
    await other.delete(ONE, "key")
    assert await one.read(ONE, "key", consistency="strong") is None


async def test_a_cold_read_leaves_memory_as_it_is(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await reopen()).scoped.write(ONE, "key", 1)
    scoped = (await reopen()).scoped
    await scoped.list(ONE)
    counting = Counting(scoped, monkeypatch)
    for _ in range(2):
        assert await scoped.read_hinted(ONE, "key", StoreOptions(tier=MemoryTier.COLD)) == 1
    assert counting.asked == ["key"] * 2


async def test_reading_many_keys_loads_the_index_at_last(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = (await reopen()).scoped
    await writer.write_many(ONE, {f"k{number}": number for number in range(50)})
    store = await reopen()
    for number in range(32):
        assert await store.scoped.read(ONE, f"k{number}") == number
    assert not store.scoped._indexes.is_open(ONE)
    assert await store.scoped.read(ONE, "k40") == 40
    assert store.scoped._indexes.is_open(ONE)
    counting = Counting(store.scoped, monkeypatch)
    assert await store.scoped.read(ONE, "k3") == 3
    assert await store.scoped.read(ONE, "nothing") is None
    assert counting.asked == []


def subject(key: str) -> Subject:
    return Namespace("n").subject("scoped", "scope", key)


def keys(cache: Cache) -> set[str]:
    return {each.keys[-1] for each in cache._values}


def test_what_leaves_memory_first_is_warm_then_least_salient_then_least_used() -> None:
    cache = Cache(max_bytes=5 * 1300)
    values: list[tuple[str, str, float | None]] = [
        ("hot-neutral", "hot", None),
        ("hot-salient", "", 0.9),
        ("warm-salient", "warm", 1.0),
        ("hot-dull", "hot", 0.1),
        ("warm-dull", "warm", 0.0),
    ]
    for key, tier, salience in values:
        cache.put(subject(key), "v", bytes(1000), tier, salience)
    assert len(cache) == 5
    gone = []
    for number in range(5):
        before = keys(cache)
        cache.put(subject(f"new-{number}"), "v", bytes(1000), "hot", 1.0)
        gone += sorted(before - keys(cache))
    assert gone == ["warm-dull", "warm-salient", "hot-dull", "hot-neutral", "hot-salient"]


def test_equally_salient_values_leave_by_last_use_and_versions_are_told_apart() -> None:
    cache = Cache(max_bytes=2 * 1300)
    cache.put(subject("a"), "1", bytes(1000), "", None)
    cache.put(subject("b"), "1", bytes(1000), "", None)
    assert cache.get(subject("a"), "1") == bytes(1000)
    assert cache.get(subject("a"), "2") is None
    cache.put(subject("c"), "1", bytes(1000), "", None)
    assert keys(cache) == {"a", "c"}
    cache.put(subject("a"), "2", b"new", "cold", None)
    assert keys(cache) == {"c"}
    cache.put(subject("d"), "1", bytes(10_000), "", None)  # larger than all there may be
    assert keys(cache) == {"c"}
    cache.drop(subject("c"))
    assert (cache.bytes, len(cache)) == (0, 0)
