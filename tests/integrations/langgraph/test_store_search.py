"""FoldlogStore: searches with a query, by words and by meaning."""

from __future__ import annotations

import asyncio
import tomllib
from typing import Any

import pytest
from langgraph.store.base import PutOp

import foldlog
from foldlog.integrations.langgraph import FoldlogStore
from foldlog.scoped import EmbedderFailed
from foldlog_projections.langgraph import langgraphitems
from tests.docs.markdown import ROOT

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Letters:
    """Embeds a text as how often each letter is in it; notes what it was given."""

    name = "letters"

    def __init__(self) -> None:
        self.given: list[str] = []

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.given += texts
        return [[float(text.count(letter)) for letter in LETTERS] for text in texts]


async def keys(store: FoldlogStore, query: str, **asked: Any) -> list[str]:
    return [item.key for item in await store.asearch((), query=query, **asked)]


# --- by words -------------------------------------------------------------------------------------


@pytest.fixture
async def store(log: foldlog.Store) -> FoldlogStore:
    return FoldlogStore(log)


async def test_what_has_the_words_comes_first_and_the_rest_has_no_score(
    store: FoldlogStore,
) -> None:
    values = {
        "deploy": {"text": "To deploy, run make release."},
        "rollback": {"steps": ["revert the tag", "deploy the last release", "deploy again"]},
        "lunch": {"text": "at noon"},
    }
    await store.abatch([PutOp(("notes",), key, value) for key, value in values.items()])
    found = await store.asearch(("notes",), query="deploying")
    assert {item.key for item in found[:2]} == {"deploy", "rollback"}
    assert all(item.score is not None and 0 < item.score < 1 for item in found[:2])
    assert [(item.key, item.score) for item in found[2:]] == [("lunch", None)]
    assert await keys(store, "noon", limit=1) == ["lunch"]
    assert await keys(store, "release", filter={"text": "at noon"}) == ["lunch"]
    pages = [await keys(store, "deploy", limit=1, offset=n) for n in range(4)]
    assert pages == [*([item.key] for item in found), []]


async def test_words_are_those_of_scoped_state(store: FoldlogStore) -> None:
    values = {"zh": "这是中文的笔记", "camel": "the customerName of it", "accent": "Crème brûlée"}
    await store.abatch([PutOp(("a",), key, {"t": text}) for key, text in values.items()])
    for query, key in [("中文", "zh"), ("customer", "camel"), ("creme", "accent")]:
        assert await keys(store, query, limit=1) == [key]


async def test_only_the_named_parts_are_searched(store: FoldlogStore) -> None:
    value = {"text": "apples", "notes": [{"t": "pears"}, {"t": "plums"}]}
    await store.aput(("a",), "all", value)
    await store.aput(("a",), "notes", value, index=["notes[*].t"])
    await store.aput(("a",), "none", value, index=False)
    for query, expected in [("apples", {"all"}), ("pears", {"all", "notes"})]:
        found = await store.asearch(("a",), query=query)
        assert {item.key for item in found if item.score is not None} == expected
        assert len(found) == 3


@pytest.mark.parametrize("query", ["", None, "!?", '"'])
async def test_a_query_without_words_ranks_nothing(store: FoldlogStore, query: str | None) -> None:
    await store.abatch([PutOp(("a",), key, {"t": key}) for key in "xy"])
    found = await store.asearch((), query=query)
    assert [(item.key, item.score) for item in found] == [("y", None), ("x", None)]


# --- by meaning -----------------------------------------------------------------------------------


@pytest.fixture
def letters() -> Letters:
    pytest.importorskip("numpy")
    return Letters()


def indexed(log: foldlog.Store, letters: Any, *fields: str) -> FoldlogStore:
    index: Any = {"dims": len(LETTERS), "embed": letters}
    return FoldlogStore(log, index={**index, "fields": list(fields)} if fields else index)


async def test_the_nearest_come_first(log: foldlog.Store, letters: Letters) -> None:
    store = indexed(log, letters, "text")
    await store.abatch(
        [PutOp((each,), each, {"text": each, "n": len(each)}) for each in ["abba", "abc", "xyz"]]
    )
    found = await store.asearch((), query="ab")
    assert [(item.key, item.score) for item in found] == [
        ("abba", 1.0),
        ("abc", pytest.approx(2 / 6**0.5, abs=1e-6)),
        ("xyz", 0.0),
    ]
    assert await keys(store, "ab", limit=1, offset=1) == ["abc"]
    assert await keys(store, "ab", filter={"n": 3}) == ["abc", "xyz"]
    [of_prefix] = await store.asearch(("xyz",), query="ab")
    assert of_prefix.key == "xyz"
    assert [item.score for item in await store.asearch(())] == [None] * 3


async def test_an_item_counts_with_its_nearest_part(log: foldlog.Store, letters: Letters) -> None:
    store = indexed(log, letters, "title", "parts[*]")
    await store.aput(("a",), "many", {"title": "zzz", "parts": ["qq", "ab"]})
    await store.aput(("a",), "one", {"title": "abc"})
    await store.aput(("a",), "own", {"title": "ab", "x": {"y": "bb"}}, index=["x.y"])
    await store.aput(("a",), "none", {"title": "ab"}, index=False)
    await store.aput(("a",), "absent", {"other": "ab"})
    found = {item.key: item.score for item in await store.asearch(("a",), query="ab")}
    assert list(found)[:3] == ["many", "one", "own"]
    assert found["many"] == 1.0
    assert found["none"] is found["absent"] is None


async def test_each_put_is_embedded_once_for_all_processes(
    log: foldlog.Store, letters: Letters
) -> None:
    store = indexed(log, letters, "t")
    await store.abatch([PutOp(("a",), key, {"t": key}) for key in "xyz"])
    assert letters.given == []
    await store.asearch((), query="q")
    assert sorted(letters.given) == ["q", "x", "y", "z"]
    await store.aput(("a",), "x", {"t": "w"})
    await store.adelete(("a",), "z")
    await store.asearch((), query="q")
    assert letters.given[4:] == ["w", "q"]

    other = Letters()
    async with foldlog.memory_store(log=log.log) as second:  # type: ignore[arg-type]
        assert await keys(indexed(second, other, "t"), "w") == ["x", "y"]
    assert other.given == ["w"]
    await indexed(log, letters).asearch((), query="q")  # of other parts
    assert letters.given[6:] == ['{"t": "w"}', '{"t": "y"}', "q"]


async def test_what_was_put_without_an_index_is_found_with_one(
    log: foldlog.Store, letters: Letters
) -> None:
    await FoldlogStore(log).aput(("a",), "k", {"t": "ab"})
    then = await log.position()
    [found] = await indexed(log, letters, "t").asearch((), query="ab")
    assert found.score == 1.0
    [of_the_past] = await indexed(log.at(then), letters, "t").asearch((), query="ab")
    assert of_the_past.score == 1.0


async def test_vectors_are_of_what_is_stored(letters: Letters) -> None:
    def redact(saving: foldlog.Saving) -> Any:
        return {name: {"t": "hidden"} for name in saving.values}

    async with foldlog.memory_store(redact=redact) as log:
        store = indexed(log, letters, "t")
        await store.aput(("a",), "k", {"t": "secret"})
        await store.asearch((), query="q")
    assert letters.given == ["hidden", "q"]


async def test_an_async_embedder_serves_blocking_code(letters: Letters) -> None:
    async def embed(texts: list[str]) -> list[list[float]]:
        return letters(texts)

    index: Any = {"dims": len(LETTERS), "embed": embed, "fields": ["t"]}
    with FoldlogStore.from_conn_string(":memory:", index=index) as store:
        store.put(("a",), "k", {"t": "ab"})
        [found] = store.search((), query="ab")
        assert found.score == 1.0
        assert store.embeddings is not None
        assert store.index_config == index


async def test_what_an_embedder_raises_is_named(log: foldlog.Store, letters: Letters) -> None:
    def failing(texts: list[str]) -> list[list[float]]:
        raise OSError("no route")

    store = indexed(log, failing)
    await store.aput(("a",), "k", {"t": "ab"})
    with pytest.raises(EmbedderFailed, match="no route"):
        await store.asearch((), query="ab")
    found = await store.aget(("a",), "k")
    assert found is not None


async def test_vectors_of_other_lengths_are_refused(log: foldlog.Store) -> None:
    pytest.importorskip("numpy")
    lengths = iter([2, 3])

    def growing(texts: list[str]) -> list[list[float]]:
        return [[1.0] * length for length in [next(lengths)] for _ in texts]

    store = indexed(log, growing)
    await store.aput(("a",), "k", {"t": "ab"})
    with pytest.raises(EmbedderFailed, match="one length"):
        await store.asearch((), query="ab")


async def test_vectors_of_what_was_erased_meanwhile_are_never_written(log: foldlog.Store) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def embedded(texts: list[str]) -> list[list[float]]:
        begun.set()
        await goes_on.wait()
        return [[1.0, 2.0, 3.0] for _ in texts]

    store = FoldlogStore(log, index={"dims": 3, "embed": embedded})
    await store.aput(("u", "1"), "secret", {"text": "secret"})
    await store.aput(("u", "2"), "again", {"text": "before"})
    await store.aput(("v",), "stays", {"text": "public"})
    searching = asyncio.create_task(store.asearch((), query="x"))
    await begun.wait()
    await store.aerase(("u",))
    await store.aput(("u", "2"), "again", {"text": "after"})
    goes_on.set()
    await searching
    kind = langgraphitems.kind
    assert await log.items(kind("default", "u/1")) == []
    [again] = (await log.view(kind("default", "u/2"))).values()
    assert again.vectors == ()
    assert len(await log.items(kind("default", "u/2"))) == 1
    [stays] = (await log.view(kind("default", "v"))).values()
    assert len(stays.vectors) == 1


def test_the_extra_brings_what_vectors_need() -> None:
    settings = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))
    extra = settings["project"]["optional-dependencies"]["langgraph"]
    assert any(each.startswith("numpy") for each in extra)
