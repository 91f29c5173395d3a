"""FoldlogStore: what LangGraph's BaseStore promises, and what the log adds."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)

import foldlog
import foldlog.blocking
from foldlog.errors import ConfigurationError, Misuse, PastErased, PayloadError, ReadOnlyStore
from foldlog.integrations.langgraph import FoldlogStore
from foldlog_projections.langgraph import langgraphnamespaces


@pytest.fixture
async def store(log: foldlog.Store) -> FoldlogStore:
    return FoldlogStore.from_store(log)


# --- items ----------------------------------------------------------------------------------------


async def test_an_item_is_what_was_put_last(store: FoldlogStore) -> None:
    await store.aput(("users", "ann"), "prefs", {"theme": "dark", "sizes": [1, 2.5, None]})
    first = await store.aget(("users", "ann"), "prefs")
    assert first is not None
    assert (first.namespace, first.key) == (("users", "ann"), "prefs")
    assert first.value == {"theme": "dark", "sizes": [1, 2.5, None]}
    assert first.created_at == first.updated_at

    await store.aput(("users", "ann"), "prefs", {"theme": "light"})
    second = await store.aget(("users", "ann"), "prefs")
    assert second is not None
    assert second.value == {"theme": "light"}
    assert second.created_at == first.created_at < second.updated_at

    await store.adelete(("users", "ann"), "prefs")
    assert await store.aget(("users", "ann"), "prefs") is None
    await store.aput(("users", "ann"), "prefs", {})
    third = await store.aget(("users", "ann"), "prefs")
    assert third is not None
    assert third.created_at > second.updated_at


async def test_what_is_returned_is_the_callers_own(store: FoldlogStore) -> None:
    value = {"list": [1]}
    await store.aput(("a",), "k", value)
    value["list"].append(2)
    found = await store.aget(("a",), "k")
    assert found is not None
    found.value["list"].append(3)
    again = await store.aget(("a",), "k")
    assert again is not None
    assert again.value == {"list": [1]}


async def test_namespaces_are_never_mistaken_for_one_another(store: FoldlogStore) -> None:
    alike = [("a/b",), ("a", "b"), ("a%2Fb",), ("a", "b", "c"), ("a", "b/c"), ("A",), ("ä", "*")]
    await store.abatch([PutOp(each, "k", {"of": list(each)}) for each in alike])
    for each in alike:
        found = await store.aget(each, "k")
        assert found is not None
        assert found.value == {"of": list(each)}
    assert await store.alist_namespaces() == sorted(alike)
    assert await store.alist_namespaces(prefix=("a", "b")) == [("a", "b"), ("a", "b", "c")]
    assert [item.namespace for item in await store.asearch(("a/b",))] == [("a/b",)]


BAD_LABELS: list[Any] = [("a", ""), ("",), ("a.b",), (1,), ("a\0",)]
OPERATIONS: dict[str, Callable[[Any], Op]] = {
    "put": lambda labels: PutOp(labels, "k", {}),
    "get": lambda labels: GetOp(labels, "k"),
    "search": lambda labels: SearchOp(labels),
    "list": lambda labels: ListNamespacesOp((MatchCondition("prefix", labels),)),
}


@pytest.mark.parametrize("make", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize("labels", BAD_LABELS)
async def test_a_batch_refuses_labels_that_the_methods_refuse(
    store: FoldlogStore, make: Callable[[Any], Op], labels: Any
) -> None:
    with pytest.raises(InvalidNamespaceError):
        await store.abatch([PutOp(("fine",), "k", {}), make(labels)])
    assert await store.alist_namespaces() == []


async def test_no_namespace_holds_nothing(store: FoldlogStore) -> None:
    with pytest.raises(InvalidNamespaceError):
        await store.abatch([PutOp(("fine",), "k", {}), PutOp((), "k", {})])
    assert await store.alist_namespaces() == []


async def test_stores_of_other_names_are_apart(log: foldlog.Store) -> None:
    mine, theirs = FoldlogStore(log), FoldlogStore(log, name="theirs")
    await mine.aput(("a",), "k", {"whose": "mine"})
    assert await theirs.aget(("a",), "k") is None
    assert await theirs.alist_namespaces() == []


# --- batches --------------------------------------------------------------------------------------


async def test_a_batch_reads_what_there_was_and_the_last_put_of_a_key_wins(
    store: FoldlogStore,
) -> None:
    await store.aput(("a",), "k", {"n": 0})
    results = await store.abatch(
        [
            PutOp(("a",), "k", {"n": 1}),
            PutOp(("b",), "k", {"n": 1}),
            GetOp(("a",), "k"),
            SearchOp((), limit=10),
            ListNamespacesOp(),
            PutOp(("a",), "k", {"n": 2}),
            PutOp(("b",), "k", None),
            GetOp(("b",), "k"),
        ]
    )
    assert results[:2] == results[5:7] == [None, None]
    assert (results[2].value, results[7]) == ({"n": 0}, None)
    assert [item.value for item in results[3]] == [{"n": 0}]
    assert results[4] == [("a",)]
    assert [(each.key, each.value) for each in await store.asearch(())] == [("k", {"n": 2})]


async def test_a_batch_is_written_whole_or_not_at_all(store: FoldlogStore) -> None:
    with pytest.raises(PayloadError):
        await store.abatch([PutOp(("a",), "k", {}), PutOp(("b",), "k", {"x": object()})])
    assert await store.alist_namespaces() == []


async def test_a_batch_is_one_append_however_many_shards_there_are() -> None:
    async with foldlog.memory_store(shards=4) as log:
        store = FoldlogStore(log)
        await store.abatch([PutOp((f"n{n}",), "k", {"n": n}) for n in range(20)])
        found = await store.abatch([GetOp((f"n{n}",), "k") for n in range(20)])
        assert [item.value["n"] for item in found] == list(range(20))
        assert len(await store.asearch((), limit=100)) == 20


async def test_writes_stand_in_the_order_of_their_calls(store: FoldlogStore) -> None:
    for _ in range(20):
        await asyncio.gather(
            store.aput(("a",), "k", {"n": 1}),
            store.adelete(("a",), "k"),
            store.aput(("a",), "k", {"n": 2}),
            store.aput(("a",), "other", {"n": 3}),
            store.adelete(("a",), "other"),
        )
        assert [item.value for item in await store.asearch(("a",))] == [{"n": 2}]


async def test_unknown_operations_are_refused(store: FoldlogStore) -> None:
    with pytest.raises(ValueError, match="Unknown operation"):
        await store.abatch([("get", "a", "k")])


async def test_items_are_saved_with_the_callers_own_block(
    log: foldlog.Store, store: FoldlogStore
) -> None:
    async def fail() -> None:
        async with log.atomic():
            await store.aput(("a",), "k", {})
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    assert await store.alist_namespaces() == []
    async with log.atomic():
        await store.aput(("a",), "k", {"n": 1})
        await log.save_memory_state("key", {"n": 1})
    assert await store.alist_namespaces() == [("a",)]


# --- listing --------------------------------------------------------------------------------------

NAMESPACES = [
    ("a", "b", "c"),
    ("a", "b", "d", "e"),
    ("a", "b", "d", "i"),
    ("a", "b", "f"),
    ("a", "c", "f"),
    ("b", "a", "f"),
    ("users", "123"),
]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, NAMESPACES),
        ({"prefix": ("a", "b")}, NAMESPACES[:4]),
        ({"prefix": ("a", "*", "f")}, [("a", "b", "f"), ("a", "c", "f")]),
        (
            {"prefix": ("a", "b"), "max_depth": 3},
            [*NAMESPACES[:1], ("a", "b", "d"), ("a", "b", "f")],
        ),
        ({"suffix": ("f",)}, NAMESPACES[3:6]),
        ({"suffix": ("*", "f"), "prefix": ("a",)}, NAMESPACES[3:5]),
        ({"max_depth": 1}, [("a",), ("b",), ("users",)]),
        ({"limit": 2, "offset": 1}, NAMESPACES[1:3]),
        ({"prefix": ("a", "b", "c", "d")}, []),
        ({"prefix": ("users", "12")}, []),
    ],
    ids=str,
)
async def test_namespaces_are_listed(
    store: FoldlogStore, asked: dict[str, Any], expected: list[tuple[str, ...]]
) -> None:
    await store.abatch([PutOp(each, "k", {}) for each in NAMESPACES])
    assert await store.alist_namespaces(**asked) == expected


async def test_a_namespace_without_items_is_not_listed(store: FoldlogStore) -> None:
    await store.abatch([PutOp((f"n{n:03}",), "k", {}) for n in range(300)])
    await store.abatch([PutOp((f"n{n:03}",), "k", None) for n in range(290)])
    assert await store.alist_namespaces(limit=5) == [(f"n{n:03}",) for n in range(290, 295)]


async def test_other_matches_are_refused(store: FoldlogStore) -> None:
    await store.aput(("a",), "k", {})
    with pytest.raises(ValueError, match="match type"):
        await store.abatch([ListNamespacesOp((MatchCondition("middle", ("a",)),))])


# --- searching ------------------------------------------------------------------------------------

ITEM = {
    "name": "Ann",
    "age": 40,
    "score": 4.5,
    "on": True,
    "none": None,
    "tags": ["a", "b"],
    "home": {"city": "Oslo", "zip": 150},
    "a.b": 1,
    "born": "1986-02-01",
}


@pytest.mark.parametrize(
    ("filter", "passes"),
    [
        ({}, True),
        ({"name": "Ann"}, True),
        ({"name": "ann"}, False),
        ({"name": "Ann", "age": 41}, False),
        ({"absent": None, "none": None}, True),
        ({"on": True}, True),
        ({"tags": ["a", "b"]}, True),
        ({"tags": ["a"]}, False),
        ({"home": {"city": "Oslo"}}, True),
        ({"home": {"city": {"$ne": "Oslo"}}}, False),
        ({"home.city": "Oslo"}, True),
        ({"home.zip": {"$lt": 200}}, True),
        ({"name.city": "Oslo"}, False),
        ({"a.b": 1}, True),
        ({"age": {"$eq": 40}}, True),
        ({"age": {"$ne": 40}}, False),
        ({"absent": {"$ne": 40}}, True),
        ({"age": {"$gt": 40}}, False),
        ({"age": {"$gte": 40}}, True),
        ({"age": {"$lt": 40}}, False),
        ({"age": {"$lte": 40}}, True),
        ({"age": {"$gt": 39, "$lt": 41}}, True),
        ({"age": {"$gt": "39"}}, True),
        ({"score": {"$lt": math.inf}}, True),
        ({"score": {"$eq": math.nan}}, False),
        ({"age": {"$lt": 10**400}}, False),
        ({"born": {"$lt": "1990"}}, True),
        ({"born": {"$gt": "1990"}}, False),
        ({"name": {"$gt": 1}}, False),
        ({"absent": {"$lt": 1}}, False),
    ],
    ids=str,
)
async def test_filters(store: FoldlogStore, filter: dict[str, Any], passes: bool) -> None:
    await store.aput(("a",), "k", ITEM)
    assert [item.value for item in await store.asearch(("a",), filter=filter)] == [ITEM] * passes


async def test_an_unknown_operator_is_refused(store: FoldlogStore) -> None:
    await store.aput(("a",), "k", {"n": 1})
    with pytest.raises(ValueError, match=r"\$regex"):
        await store.asearch(("a",), filter={"n": {"$regex": "1"}})


async def test_a_search_gives_pages_of_a_prefix_with_the_newest_first(store: FoldlogStore) -> None:
    for n in range(12):
        await store.aput(("a", "even" if n % 2 == 0 else "odd"), f"k{n}", {"n": n})
    await store.aput(("b",), "k", {"n": -1})
    await store.aput(("a", "even"), "k4", {"n": 4})

    async def keys(prefix: tuple[str, ...], **asked: Any) -> list[str]:
        return [item.key for item in await store.asearch(prefix, **asked)]

    newest = ["k4", *(f"k{n}" for n in range(11, -1, -1) if n != 4)]
    assert await keys(("a",), limit=100) == newest
    assert await keys(("a",)) == newest[:10]
    assert await keys(("a",), limit=3, offset=2) == newest[2:5]
    assert await keys(("a",), filter={"n": {"$lt": 4}}, limit=2, offset=1) == ["k2", "k1"]
    assert await keys(("a", "odd"), limit=2) == ["k11", "k9"]
    assert await keys(("absent",)) == await keys(("a", "even", "k4")) == []
    assert len(await keys((), limit=100)) == 13


# --- who may call ---------------------------------------------------------------------------------


async def test_blocking_calls_come_from_other_threads(store: FoldlogStore) -> None:
    for call in (store.list_namespaces, lambda: store.put(("a",), "k", {})):
        with pytest.raises(asyncio.InvalidStateError) as refused:
            call()
        assert isinstance(refused.value, ConfigurationError)
    with ThreadPoolExecutor(1) as threads:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(threads, store.put, ("a",), "k", {"n": 1})
        found = await loop.run_in_executor(threads, store.get, ("a",), "k")
        assert found is not None
        assert found.value == {"n": 1}
        coming = await loop.run_in_executor(
            threads, lambda: asyncio.run(store.aget(("a",), "k"))
        )  # a coroutine on another event loop
        assert coming == found


def test_without_the_event_loop_of_a_store_nobody_waits_for_it() -> None:
    store = FoldlogStore(foldlog.memory_store())
    with pytest.raises(Misuse, match=r"blocking\.connect"):
        store.get(("a",), "k")


def test_blocking_code_has_a_store_of_its_own(tmp_path: Path) -> None:
    with FoldlogStore.from_conn_string(str(tmp_path / "log")) as store:
        store.put(("a",), "k", {"n": 1})
        assert store.list_namespaces() == [("a",)]

        async def on_any_loop() -> Any:
            await store.aput(("a",), "k2", {"n": 2})
            return await store.asearch(("a",))

        assert [item.key for item in asyncio.run(on_any_loop())] == ["k2", "k"]

    async def opened_again() -> Any:
        async with FoldlogStore.from_conn_string(str(tmp_path / "log")) as store:
            return await store.aget(("a",), "k")

    found = asyncio.run(opened_again())
    assert (found.key, found.value) == ("k", {"n": 1})

    with foldlog.blocking.connect(path=tmp_path / "log") as blocking:
        assert FoldlogStore.from_store(blocking).get(("a",), "k") == found


async def test_another_process_sees_what_was_put(log: foldlog.Store, store: FoldlogStore) -> None:
    async with foldlog.memory_store(log=log.log) as second:  # type: ignore[arg-type]
        other = FoldlogStore(second, consistency="strong")
        for n in range(3):
            await store.aput(("a", str(n)), "k", {"n": n})
            assert len(await other.asearch(("a",))) == n + 1
            assert len(await other.alist_namespaces()) == n + 1


# --- what the log adds ----------------------------------------------------------------------------


async def test_items_as_of_a_moment(
    log: foldlog.Store, store: FoldlogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.aput(("a",), "k", {"n": 1}, ttl=1)
    then = await log.position()
    await store.aput(("a",), "k", {"n": 2})
    past = log.at(then)
    earlier = FoldlogStore(past)
    assert [item.value for item in await earlier.asearch(("a",))] == [{"n": 1}]
    # Its time would begin anew, but the past stays as it was.
    monkeypatch.setattr(past._core, "now", lambda: time.time() + 3600)
    found = await earlier.aget(("a",), "k")
    assert found is not None
    assert found.value == {"n": 1}
    assert await FoldlogStore(past, ttl={"omit_expired": True}).aget(("a",), "k") is None
    with pytest.raises(ReadOnlyStore):
        await earlier.aput(("a",), "k", {"n": 3})


async def test_a_namespace_is_erased_with_its_history(
    log: foldlog.Store, store: FoldlogStore
) -> None:
    kept = [("a",), ("b", "a"), ("ab",)]
    for labels in [*kept, ("a", "b"), ("a", "b", "c")]:
        await store.aput(labels, "k", {"n": 1})
    then = await log.position()
    await store.aerase(("a", "b"))
    await store.aerase(("absent",))
    assert await store.alist_namespaces() == sorted(kept)
    with pytest.raises(PastErased):
        await FoldlogStore(log.at(then)).aget(("a", "b"), "k")
    await store.aput(("a", "b"), "k", {"n": 1})
    assert [item.value for item in await store.asearch(("a", "b"))] == [{"n": 1}]


def test_blocking_code_erases() -> None:
    with FoldlogStore.from_conn_string(":memory:") as store:
        store.put(("a", "b"), "k", {})
        store.erase(("a",))
        assert store.list_namespaces() == []


async def test_redaction_sees_values() -> None:
    def redact(saving: foldlog.Saving) -> Any:
        return {name: {"hidden": True} for name in saving.values}

    async with foldlog.memory_store(redact=redact) as log:
        store = FoldlogStore(log)
        await store.aput(("a",), "k", {"secret": "s"})
        found = await store.aget(("a",), "k")
        assert found is not None
        assert found.value == {"hidden": True}


# --- which namespaces there are -------------------------------------------------------------------


async def test_namespaces_whose_list_was_deleted_are_listed_when_put_to(
    store: FoldlogStore, log: foldlog.Store
) -> None:
    await store.aput(("u",), "k", {})
    await log.erase(langgraphnamespaces.kind("default"))
    assert await store.alist_namespaces() == []
    await store.aput(("u",), "k2", {})
    assert await store.alist_namespaces() == [("u",)]
    assert len(await store.asearch(("u",))) == 2


async def test_a_namespace_is_noted_once_and_again_when_its_items_begin_to_expire(
    log: foldlog.Store,
) -> None:
    for _ in range(3):
        store = FoldlogStore(log)
        await store.aput(("u", "v"), "k", {})
        await store.aput(("u",), "k", {})
        await store.aput(("u",), "k", {}, ttl=5)
        await store.aput(("u",), "k", {})
    notes = await log.items(langgraphnamespaces.kind("default"))
    assert [(each.record.labels, each.record.expires) for each in notes] == [
        (("u", "v"), False),
        (("u",), False),
        (("u",), True),
    ]


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("ttl", [float("nan"), float("inf"), "5", True])
async def test_a_time_is_a_finite_number_of_minutes(store: FoldlogStore, ttl: Any) -> None:
    with pytest.raises(PayloadError, match="ttl"):
        await store.aput(("u",), "k", {}, ttl=ttl)
    assert await store.aget(("u",), "k") is None


@pytest.mark.parametrize("key", [5, None, b"k", "\ud800"])
async def test_a_key_is_a_text(store: FoldlogStore, key: Any) -> None:
    for op in (PutOp(("u",), key, {}), PutOp(("u",), key, None), GetOp(("u",), key)):
        with pytest.raises(PayloadError, match="key"):
            await store.abatch([op])
    assert await store.asearch(()) == []


@pytest.mark.parametrize("page", [{"limit": -1}, {"offset": -1}, {"limit": "1"}, {"limit": None}])
async def test_a_page_is_counted_from_0(store: FoldlogStore, page: dict[str, Any]) -> None:
    [name] = page
    with pytest.raises(PayloadError, match=name):
        await store.asearch((), **page)
    with pytest.raises(PayloadError, match=name):
        await store.alist_namespaces(**page)
    assert await store.asearch((), limit=0) == []
