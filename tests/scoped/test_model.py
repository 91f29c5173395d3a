"""Scoped state against a dict: whatever is called, in whatever order, by whichever process."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, strategies as st

import foldlog
from foldlog.scoped import (
    Effect,
    Lifetime,
    MemoryLink,
    MemoryTier,
    Scope,
    ScopedStore,
    StoreOptions,
    VersionConflict,
)

SCOPES = (Scope.session("s"), Scope.global_())
KEYS = ("a", "ab", "b")

scopes = st.sampled_from(SCOPES)
keys = st.sampled_from(KEYS)
values = st.one_of(
    st.none(),
    st.integers(),
    st.text(max_size=3),
    st.lists(st.floats(allow_nan=False), max_size=2),
    st.dictionaries(st.text(max_size=2), st.booleans(), max_size=2),
)
options = st.builds(
    StoreOptions,
    tier=st.none() | st.sampled_from(MemoryTier),
    lifetime=st.none() | st.sampled_from(Lifetime),
    salience=st.none() | st.floats(0, 1),
    ttl=st.none() | st.sampled_from([5_000, 20_000]),
)
CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), scopes, keys, values, options),
        st.tuples(st.just("compare"), scopes, keys, values, st.booleans()),
        st.tuples(st.just("many"), scopes, st.dictionaries(keys, values), options),
        st.tuples(st.just("delete"), scopes, keys),
        st.tuples(st.just("link"), scopes, keys, keys),
        st.tuples(st.just("unlink"), scopes, keys, keys),
        st.tuples(st.just("end"), scopes),
        st.tuples(st.just("clear"), scopes),
        st.tuples(st.just("clear transient")),
        st.tuples(st.just("wait"), st.sampled_from([1, 6, 30])),
        st.tuples(st.just("other process")),
    ),
    max_size=25,
)


@dataclass
class Held:
    value: Any
    options: StoreOptions
    ends: float


@dataclass
class Model:
    """One scope as a dict has it."""

    stored: dict[str, Held] = field(default_factory=dict)
    transient: dict[str, Held] = field(default_factory=dict)
    links: list[tuple[str, str]] = field(default_factory=list)

    def write(self, key: str, value: Any, options: StoreOptions, now: float) -> None:
        ends = now + options.ttl / 1000 if options.ttl is not None else float("inf")
        held = Held(value, options, ends)
        if options.lifetime is Lifetime.TRANSIENT:
            self.transient[key] = held
        else:
            self.transient.pop(key, None)
            self.stored[key] = held

    def delete(self, key: str) -> None:
        self.transient.pop(key, None)
        if self.stored.pop(key, None) is not None:
            self.links = [link for link in self.links if key not in link]

    def pass_time(self, now: float) -> None:
        for key in [key for key, held in self.stored.items() if held.ends <= now]:
            del self.stored[key]
            self.links = [link for link in self.links if key not in link]
        self.transient = {key: held for key, held in self.transient.items() if held.ends > now}

    def reach(self, key: str, depth: int) -> list[str]:
        found, level = [key], [key]
        for _ in range(depth):
            level = [b for a in level for x, b in self.links if x == a and b not in found]
            level = list(dict.fromkeys(level))
            found += level
        return found[1:]


@given(CALLS)
def test_scopes_are_what_a_dict_would_hold(calls: list[tuple[Any, ...]]) -> None:
    asyncio.run(_compare(calls))


async def _compare(calls: list[tuple[Any, ...]]) -> None:
    """Half a second passes with each call."""
    log_store = foldlog.memory_store()
    opened = [log_store]
    clock = Clock()
    model = {scope: Model() for scope in SCOPES}
    with mock.patch("time.time", clock), mock.patch("foldlog.log.memory.dt", clock.of_the_log):
        scoped = log_store.scoped
        for call in calls:
            clock.now += 0.5
            for each in model.values():
                each.pass_time(clock.now)
            if call[0] == "other process":
                opened.append(foldlog.memory_store(log=log_store._core.log))  # type: ignore[arg-type]
                scoped = opened[-1].scoped
                for each in model.values():
                    each.transient.clear()
            elif call[0] == "clear transient":
                scoped.clear_transient()
                for each in model.values():
                    each.transient.clear()
            elif call[0] == "wait":
                clock.now += call[1]
                for each in model.values():
                    each.pass_time(clock.now)
            else:
                await CALL[call[0]](scoped, model[call[1]], clock.now, *call[1:])
            for scope in SCOPES:
                await _same(scoped, scope, model[scope])
    for store in opened:
        await store.close()


class Clock:
    """The time, here and on the log, that nothing but the test moves."""

    def __init__(self) -> None:
        # Whole seconds: the log keeps microseconds, and what ends now must do so there, too.
        self.now = float(int(time.time()))

    def __call__(self) -> float:
        return self.now

    @property
    def of_the_log(self) -> Any:
        """What the log takes for the module datetime."""
        datetime = SimpleNamespace(
            now=lambda zone: dt.datetime.fromtimestamp(self.now, zone),
            fromisoformat=dt.datetime.fromisoformat,
        )
        return SimpleNamespace(datetime=datetime, UTC=dt.UTC)


async def _write(
    scoped: ScopedStore, model: Model, now: float, scope: Scope, key: str, value: Any, hints: Any
) -> None:
    version = await scoped.write(scope, key, value, hints)
    assert bool(version) == (hints.lifetime is not Lifetime.TRANSIENT)
    model.write(key, value, hints, now)


async def _compare_and_set(
    scoped: ScopedStore, model: Model, now: float, scope: Scope, key: str, value: Any, right: bool
) -> None:
    entry = await scoped.entry(scope, key)
    assert (entry is not None) == (key in model.stored)
    version = entry.version if entry is not None else None
    if right:
        await scoped.write(scope, key, value, expected=version)
        model.write(key, value, StoreOptions(), now)
        return
    with pytest.raises(VersionConflict) as refused:
        await scoped.write(scope, key, value, expected="another" if version is None else None)
    assert refused.value.actual == version


async def _many(
    scoped: ScopedStore, model: Model, now: float, scope: Scope, given: Any, hints: Any
) -> None:
    await scoped.write_many(scope, given, hints)
    for key, value in given.items():
        model.write(key, value, hints, now)


async def _delete(scoped: ScopedStore, model: Model, now: float, scope: Scope, key: str) -> None:
    await scoped.delete(scope, key)
    model.delete(key)


async def _link(
    scoped: ScopedStore, model: Model, now: float, scope: Scope, a: str, b: str
) -> None:
    await scoped.apply([Effect.LinkMemory(scope, MemoryLink(a, b, "r"))])
    if (a, b) not in model.links:
        model.links.append((a, b))


async def _unlink(
    scoped: ScopedStore, model: Model, now: float, scope: Scope, a: str, b: str
) -> None:
    await scoped.unlink(scope, a, b, "r")
    model.links = [link for link in model.links if link != (a, b)]


async def _end(scoped: ScopedStore, model: Model, now: float, scope: Scope) -> None:
    own = [k for k, held in model.stored.items() if held.options.lifetime is Lifetime.SESSION]
    transient = dict(model.transient)
    assert await scoped.end_session(scope) == len(own)
    for key in own:
        model.delete(key)
    model.transient = transient


async def _clear(scoped: ScopedStore, model: Model, now: float, scope: Scope) -> None:
    await scoped.erase(scope)
    model.stored, model.transient, model.links = {}, {}, []


CALL: dict[str, Callable[..., Awaitable[None]]] = {
    "write": _write,
    "compare": _compare_and_set,
    "many": _many,
    "delete": _delete,
    "link": _link,
    "unlink": _unlink,
    "end": _end,
    "clear": _clear,
}


async def _same(scoped: ScopedStore, scope: Scope, model: Model) -> None:
    assert await scoped.list(scope, consistency="strong") == sorted(model.stored)
    assert await scoped.list(scope, "a") == sorted(k for k in model.stored if k[0] == "a")
    found = await scoped.search(scope, "a ab b", 9)
    assert {each.key for each in found} == set(model.stored)
    for key in KEYS:
        held = model.stored.get(key)
        assert await scoped.read(scope, key) == (held.value if held else None)
        entry = await scoped.entry(scope, key)
        assert (entry is None) == (held is None)
        if entry is not None and held is not None:
            assert (entry.value, entry.options) == (held.value, held.options)
            assert await scoped.read(scope, key, at=entry.position) == held.value
        seen = model.transient.get(key) or held
        assert await scoped.read(scope, key, StoreOptions()) == (seen and seen.value)
        for depth in (1, 3):
            assert await scoped.traverse(scope, key, None, depth) == model.reach(key, depth)
