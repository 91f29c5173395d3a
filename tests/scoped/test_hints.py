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
    Scope,
    StoreOptions,
    VersionConflict,
    keys as scoped_keys,
)
from foldlog.scoped.transient import Transient
from foldlog.subjects import Subject
from tests.conftest import OpenStore

ONE = Scope.session("s1")
OF_SESSION = StoreOptions(lifetime=Lifetime.SESSION)
DURABLE = StoreOptions(lifetime=Lifetime.DURABLE)


# --- session ------------------------------------------------------------------------------------


async def test_a_session_takes_what_was_written_for_it_along(store: foldlog.Store) -> None:
    scoped = store.scoped
    await scoped.write_many(ONE, {f"own-{number:03}": number for number in range(300)}, OF_SESSION)
    await scoped.write(ONE, "durable", 1, DURABLE)
    await scoped.write(ONE, "plain", 2)
    await scoped.write(ONE, "was", 3, OF_SESSION)
    await scoped.write(ONE, "was", 4)  # no longer the session's own
    await scoped.write(Scope.session("s2"), "other", 5, OF_SESSION)
    assert await scoped.end_session("s1") == 300
    assert await scoped.end_session("s1") == 0
    assert await scoped.list(ONE) == ["durable", "plain", "was"]
    assert await scoped.read(ONE, "own-007") is None
    assert await scoped.read(Scope.session("s2"), "other") == 5
    await scoped.write(ONE, "own-007", 7, OF_SESSION)
    assert await scoped.read(ONE, "own-007") == 7


async def test_what_a_session_wrote_elsewhere_ends_there(store: foldlog.Store) -> None:
    scope = Scope.agent("wf", "a")
    await store.scoped.write(scope, "own", 1, OF_SESSION)
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
    await scoped.write(ONE, "key", 1, options)
    await scoped.write(ONE, "plain", 2)

    async def read(key: str, **hints: Any) -> Any:
        return await scoped.read(ONE, key, StoreOptions(**hints))

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
    await scoped.write(ONE, "brief", {"a": "word"}, StoreOptions(ttl=60_000))
    await scoped.write(ONE, "kept", "word")
    await scoped.link(ONE, MemoryLink("kept", "brief", "r"))
    await scoped.link(ONE, MemoryLink("brief", "far", "r"))

    async def seen() -> tuple[Any, ...]:
        return (
            await scoped.read(ONE, "brief"),
            await scoped.read(ONE, "brief", StoreOptions()),
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
    await scoped.write(ONE, "key", 1, StoreOptions(ttl=1500))
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
    await scoped.write(ONE, "key", 1, StoreOptions(ttl=60_000))
    await scoped.write(ONE, "none", 1, StoreOptions(ttl=0))
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
    await store.scoped.write(ONE, "other", 2, StoreOptions(ttl=2**64 - 1))
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
    assert await store.scoped.read(ONE, "key", StoreOptions()) == 1
    advance_clock(1)
    assert await store.scoped.read(ONE, "key", StoreOptions()) is None


# --- what stays in memory -----------------------------------------------------------------------


async def test_what_was_read_answers_from_memory(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await reopen()).scoped.write_many(ONE, {"a": 1, "b": 2})
    store = await reopen()
    asked, last = [], store._core.log.last

    async def counted(subject: Subject, **options: Any) -> Any:
        asked.append(subject.keys[-1])
        return await last(subject, **options)

    monkeypatch.setattr(store._core.log, "last", counted)
    for _ in range(3):
        for key, value in (("a", 1), ("b", 2), ("none", None)):
            assert await store.scoped.read(ONE, key) == value
    assert asked == ["a", "b", "none"]


async def test_a_value_in_memory_is_the_present_one(reopen: OpenStore) -> None:
    one, other = (await reopen()).scoped, (await reopen()).scoped
    await one.list(ONE)
    for number in range(5):
        await other.write(ONE, "key", number)
        assert await one.read(ONE, "key", consistency="strong") == number
    await other.delete(ONE, "key")
    assert await one.read(ONE, "key", consistency="strong") is None


def test_transient_values_that_have_expired_go_when_others_come(
    advance_clock: Callable[[float], None],
) -> None:
    values = Transient()
    for number in range(1000):
        values.put(ONE, f"k{number}", b"", StoreOptions(ttl=1000))
    advance_clock(1)
    for number in range(200):
        values.put(ONE, f"new{number}", b"", StoreOptions())
    assert len(values._values) < 1200
    for number in range(2000):
        values.put(ONE, f"later{number}", b"", StoreOptions())
    assert len(values._values) == 2200
