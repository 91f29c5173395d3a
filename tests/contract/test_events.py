"""Runtime events: `save_event`, `save_events`, `load_history`."""

from __future__ import annotations

import asyncio
from types import MappingProxyType

import pytest

import foldlog
from tests.conftest import OpenStore
from tests.support.build import event
from tests.support.stores import appended


def names(history: list[foldlog.StoredEvent]) -> list[str | None]:
    return [stored.node_name for stored in history]


async def test_an_event_comes_back_as_it_was(store: foldlog.Store) -> None:
    saved = foldlog.StoredEvent(
        trace_id="test-trace",
        ts=1702857600.1234567,
        kind="node_success",
        node_name="test_node",
        node_id="test_node_123",
        payload={"latency_ms": 100},
    )
    await store.save_event(saved)
    assert await store.load_history("test-trace") == [saved]


async def test_absent_and_blank_names_stay_apart(store: foldlog.Store) -> None:
    absent = event(ts=1.0, node_name=None, node_id=None)
    blank = event(ts=2.0, node_name="", node_id="")
    await store.save_event(absent)
    await store.save_event(blank)
    assert await store.load_history("trace") == [absent, blank]


async def test_an_unknown_trace_has_no_history(store: foldlog.Store) -> None:
    assert await store.load_history("nonexistent") == []


async def test_history_is_ordered_by_timestamp(store: foldlog.Store) -> None:
    for ts in (3.0, 1.0, -2.5, 2.0, 0.0):
        await store.save_event(event("order-test", ts))
    assert [e.ts for e in await store.load_history("order-test")] == [-2.5, 0.0, 1.0, 2.0, 3.0]


async def test_equal_timestamps_keep_the_order_of_the_log(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    expected = [f"node-{(7 * i) % 50}" for i in range(50)]
    for name in expected:
        await store.save_event(event(ts=5.0, node_name=name))
    await store.save_event(event(ts=4.0, node_name="earlier"))
    assert names(await store.load_history("trace")) == ["earlier", *expected]
    assert names(await (await reopen()).load_history("trace")) == ["earlier", *expected]


async def test_saving_an_event_twice_keeps_one(store: foldlog.Store, reopen: OpenStore) -> None:
    await store.save_event(event())
    await store.save_event(event())
    assert await store.load_history("trace") == [event()]

    other = await reopen()
    await other.save_event(event())
    assert await other.load_history("trace") == [event()]
    assert await store.load_history("trace", consistency="strong") == [event()]


async def test_concurrent_saves_of_one_event_keep_one(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    saves = (s.save_event(event(payload={"n": 1})) for _ in range(32) for s in (store, other))
    await asyncio.gather(*saves)
    for reader in (store, other, await reopen()):
        history = await reader.load_history("trace", consistency="strong")
        assert history == [event(payload={"n": 1})]


async def test_events_that_differ_in_any_field_are_different(store: foldlog.Store) -> None:
    variants = [
        event(),
        event(kind="node_error"),
        event(node_name="other"),
        event(node_name=None),
        event(node_id="other"),
        event(node_id=None),
        event(payload={"n": 1}),
        event(payload={"n": 1.0}),
        event(payload={"n": True}),
        event(payload={"n": "1"}),
        event(payload={"n": b"1"}),
        event(payload={"n": "b'1'"}),
        event(payload={"n": [1]}),
        event(payload={"n": (1,)}),
        event(payload={"n": None}),
    ]
    for variant in variants:
        await store.save_event(variant)
    assert await store.load_history("trace") == variants


async def test_the_order_of_payload_keys_does_not_make_another_event(store: foldlog.Store) -> None:
    await store.save_event(event(payload={"a": 1, "b": {"c": 2, "d": 3}}))
    await store.save_event(event(payload={"b": {"d": 3, "c": 2}, "a": 1}))
    assert await store.load_history("trace") == [event(payload={"a": 1, "b": {"c": 2, "d": 3}})]


async def test_concurrent_writers_lose_nothing(store: foldlog.Store, reopen: OpenStore) -> None:
    other = await reopen()
    events = [event(ts=float(i), node_name=f"n{i}") for i in range(200)]
    await asyncio.gather(*((store, other)[i % 2].save_event(e) for i, e in enumerate(events)))
    for reader in (store, other):
        assert await reader.load_history("trace", consistency="strong") == events


async def test_an_event_without_a_trace_is_kept_without_one(store: foldlog.Store) -> None:
    await store.save_event(event(None, 1.0))
    await store.save_event(event("__global__", 2.0))
    history = await store.load_history("__global__")
    assert [e.trace_id for e in history] == [None, "__global__"]


async def test_equal_events_with_and_without_the_global_trace_are_different(
    store: foldlog.Store,
) -> None:
    await store.save_event(event(None))
    await store.save_event(event("__global__"))
    assert await store.load_history("__global__") == [event(None), event("__global__")]


@pytest.mark.parametrize("kind", ["node_start", "never.seen before*>", "\u2728 kind", "k" * 5_000])
async def test_any_kind_is_accepted(store: foldlog.Store, kind: str) -> None:
    await store.save_event(event(kind=kind))
    assert [e.kind for e in await store.load_history("trace")] == [kind]


async def test_any_mapping_serves_as_a_payload(store: foldlog.Store) -> None:
    await store.save_event(event(payload=MappingProxyType({"a": [1, {"b": None}]})))
    [stored] = await store.load_history("trace")
    assert stored.payload == {"a": [1, {"b": None}]}


async def test_traces_do_not_see_each_other(store: foldlog.Store) -> None:
    await store.save_event(event("one"))
    await store.save_event(event("two"))
    assert await store.load_history("one") == [event("one")]
    assert await store.load_history("two") == [event("two")]


@pytest.mark.parametrize("method", ["save_events", "save_events_bulk"])
async def test_bulk_saves_in_order_and_once(store: foldlog.Store, method: str) -> None:
    save = getattr(store, method)
    events = [event(f"trace-{i % 3}", 1.0, node_name=f"n{i}") for i in range(30)]
    await store.save_event(events[4])
    await save([])
    await save(events)
    await save(events[10:])
    for i in range(3):
        # Event 4 was saved before the others of its trace, so it comes first in the log.
        expected = sorted(events[i::3], key=lambda e: e is not events[4])
        assert await store.load_history(f"trace-{i}") == expected


async def test_a_bulk_save_larger_than_any_batch(store: foldlog.Store, reopen: OpenStore) -> None:
    events = [event(ts=1.0, node_name=f"n{i}", payload={"i": i}) for i in range(2_500)]
    await store.save_events(events)
    assert await store.load_history("trace") == events
    assert await (await reopen()).load_history("trace") == events


async def test_a_bulk_save_with_one_bad_event_appends_none(store: foldlog.Store) -> None:
    before = await appended(store)
    with pytest.raises(foldlog.PayloadError):
        await store.save_events([event(ts=1.0), event(ts=2.0, payload={"bad": object()})])
    assert await store.load_history("trace") == []
    assert await appended(store) == before


async def test_history_belongs_to_the_caller(store: foldlog.Store) -> None:
    payload = {"list": [1, 2], "dict": {"a": 1}}
    saved = event(payload=payload)
    await store.save_event(saved)
    payload["list"].append(3)
    saved.kind = "changed"

    first = await store.load_history("trace")
    first[0].payload["dict"]["a"] = 2
    first[0].kind = "changed"
    list.clear(first)

    assert await store.load_history("trace") == [event(payload={"list": [1, 2], "dict": {"a": 1}})]
