"""Payloads of every shape survive a store, and any id finds what was saved under it."""

from __future__ import annotations

import asyncio
from datetime import timedelta, timezone
from typing import Any

from hypothesis import given, strategies as st

import foldlog
from tests.support.build import event, update
from tests.support.exact import same

text = st.text(st.characters(exclude_categories=["Cs"]))
offsets = st.integers(-86_399, 86_399).map(lambda s: timezone(timedelta(seconds=s)))
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats()
    | text
    | st.binary()
    | st.datetimes()
    | st.datetimes(timezones=offsets)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(text, inner)
        | st.tuples(inner, inner)
        | st.frozensets(st.integers() | text)
    ),
    max_leaves=25,
)
payloads = st.dictionaries(text, values, max_size=5)


@given(st.lists(payloads, min_size=1, max_size=5))
def test_payloads_come_back_exactly(saved: list[dict[str, Any]]) -> None:
    async def round_trip() -> list[Any]:
        async with foldlog.memory_store() as store:
            for n, payload in enumerate(saved):
                await store.save_event(event(ts=float(n), payload=payload))
            reader = foldlog.memory_store(log=store._core.log)
            history = await reader.load_history("trace")
            await reader.close()
            return [stored.payload for stored in history]

    loaded = asyncio.run(round_trip())
    assert len(loaded) == len(saved)
    assert all(map(same, loaded, saved))


@given(st.lists(text.filter(bool), min_size=2, max_size=6, unique=True))
def test_any_id_finds_only_its_own(names: list[str]) -> None:
    async def check() -> None:
        async with foldlog.memory_store() as store:
            for name in names:
                await store.save_update(update(name, name, content=name))
                await store.save_event(event(name, payload={"name": name}))
            for name in names:
                assert await store.list_updates(name) == [update(name, name, content=name)]
                assert await store.load_history(name) == [event(name, payload={"name": name})]
            assert sorted(await store.sessions()) == sorted(names)

    asyncio.run(check())


@given(st.lists(st.floats(allow_nan=False), max_size=20), st.randoms())
def test_history_is_a_stable_sort(stamps: list[float], random: Any) -> None:
    events = [event(ts=ts, node_name=str(n)) for n, ts in enumerate(stamps)]
    repeats = random.sample(events, len(events) // 2)

    async def round_trip() -> list[foldlog.StoredEvent]:
        async with foldlog.memory_store() as store:
            await store.save_events(events)
            await store.save_events(repeats)
            return list(await store.load_history("trace"))

    assert asyncio.run(round_trip()) == sorted(events, key=lambda e: e.ts)
