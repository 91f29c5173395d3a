"""Searches by meaning: the offline embedder, any other, and what both kinds of search find."""

from __future__ import annotations

import math
import random
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.scoped import (
    EmbedderFailed,
    OfflineEmbedder,
    Scope,
    ScopedStore,
    SearchOptions,
)
from foldlog.scoped.search import Mode
from foldlog_projections.scoped.scoped import kind
from tests.docs.markdown import ROOT
from tests.scoped.quality import fill, recall

SCOPE = Scope.custom("colours")
COLOURS = {"red": [1.0, 0.0, 0.0], "green": [0.0, 1.0, 0.0], "blue": [0.0, 0.0, 1.0]}


class Painter:
    """Knows three words, and counts what it is asked."""

    name = "painter"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.texts += texts
        return [
            [
                sum(text.count(word) * vector[axis] for word, vector in COLOURS.items())
                for axis in range(3)
            ]
            for text in texts
        ]


@pytest.fixture
async def store() -> AsyncIterator[foldlog.Store]:
    async with foldlog.memory_store() as store:
        yield store


async def keys(scoped: ScopedStore, query: str, mode: Mode | None = None) -> list[str]:
    found = await scoped.search(SCOPE, query, 10, SearchOptions(), mode=mode)
    return [each.key for each in found]


async def test_an_embedder_decides_what_is_near(store: foldlog.Store) -> None:
    painter = Painter()
    scoped = store.scoped.with_search(embedder=painter)
    await scoped.write_many(
        SCOPE, {"a": "red red", "b": "red green", "c": "blue", "d": "nothing", "e": "green"}
    )
    assert await keys(scoped, "red", "semantic") == ["a", "b"]
    [first, second] = await scoped.search(SCOPE, "red", 5, SearchOptions(), mode="semantic")
    assert first.score == pytest.approx(1.0)
    assert second.score == pytest.approx(0.5**0.5, abs=1e-6)
    assert second.snippet == "red green"
    assert await keys(scoped, "nothing", "semantic") == []
    assert await keys(scoped, "nothing red") == ["a", "b", "d"]  # by both
    assert await keys(scoped, "nothing red", "text") != []
    found = await scoped.search(SCOPE, "red", 5, SearchOptions(min_score=0.9))
    assert [each.key for each in found] == ["a"]


async def test_only_what_has_changed_is_embedded_again(
    store: foldlog.Store, tmp_path: Path
) -> None:
    painter = Painter()
    scoped = store.scoped.with_search(embedder=painter, path=tmp_path)
    await scoped.write_many(SCOPE, {"a": "red", "b": "green"})
    await keys(scoped, "red")
    assert len(painter.texts) == 3
    await scoped.write(SCOPE, "b", "blue")
    await scoped.delete(SCOPE, "a")
    assert await keys(scoped, "blue", "semantic") == ["b"]
    assert painter.texts[3:] == ["b\nblue", "blue"]
    another = store.scoped.with_search(embedder=Painter(), path=tmp_path)
    assert await keys(another, "blue", "semantic") == ["b"]
    assert painter.texts[3:] == ["b\nblue", "blue"]


async def test_neither_a_restart_nor_a_clearing_embeds_anything_again(tmp_path: Path) -> None:
    painter, place = Painter(), tmp_path / "data"
    async with foldlog.connect(path=place) as store:
        scoped = store.scoped.with_search(embedder=painter)
        await scoped.write_many(SCOPE, {f"k{n}": f"red {n}" for n in range(100)})
        assert len(await keys(scoped, "red", "semantic")) == 10
        assert len(painter.texts) == 101
        await scoped.erase(SCOPE, "k5")
        assert len(await keys(scoped, "red", "semantic")) == 10
    assert painter.texts[101:] == ["red"]
    for index in (place / "search").rglob("*.db*"):
        index.unlink()
    async with foldlog.connect(path=place) as store:
        scoped = store.scoped.with_search(embedder=painter)
        found = await scoped.search(SCOPE, "red", 200, mode="semantic")
        assert {each.key for each in found} == {f"k{n}" for n in range(100)} - {"k5"}
        assert painter.texts[102:] == ["red"]
        await scoped.write(SCOPE, "k7", "red once more")
        await scoped.search(SCOPE, "red", 200, mode="semantic")
        assert painter.texts[103:] == ["k7\nred once more", "red"]


async def test_two_embedders_share_an_index_and_no_vectors(store: foldlog.Store) -> None:
    one, other = Painter(), Painter()
    other.name = "other"
    await store.scoped.write(SCOPE, "a", "red")
    for painter in (one, other, one, other):
        scoped = store.scoped.with_search(embedder=painter)
        assert await keys(scoped, "red", "semantic") == ["a"]
    assert one.texts == other.texts == ["a\nred", "red", "red"]


async def test_a_store_of_the_past_embeds_for_itself(store: foldlog.Store) -> None:
    painter = Painter()
    await store.scoped.write(SCOPE, "a", "red")
    past = store.at(await store.position()).scoped.with_search(embedder=painter)
    assert await keys(past, "red", "semantic") == ["a"]
    assert painter.texts == ["a\nred", "red"]
    records = await store.items(kind(SCOPE.subject_key, "a"))
    assert [each.type for each in records] == ["scoped.written"]


async def test_what_is_searched_inside_a_block_is_no_part_of_it(store: foldlog.Store) -> None:
    scoped = store.scoped.with_search(embedder=Painter())
    await scoped.write(SCOPE, "a", "red")

    async def block() -> None:
        async with store.atomic():
            assert await keys(scoped, "red", "semantic") == ["a"]
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        await block()
    records = await store.items(kind(SCOPE.subject_key, "a"))
    assert [each.type for each in records] == ["scoped.written", "scoped.embedded"]


@pytest.mark.parametrize("limit", [1, 7, 40, 500])
async def test_the_nearest_are_found_exactly_while_keys_come_change_and_go(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr("foldlog.scoped.documents._AT_ONCE", 16)
    chance = random.Random(limit)
    scoped = store.scoped.with_search(embedder=lambda texts: [at(text) for text in texts])

    def at(text: str) -> list[float]:
        angle = float(text.rpartition("\n")[2])
        return [math.cos(angle), math.sin(angle)]

    angles: dict[str, float] = {}
    for _ in range(4):
        changed = {f"k{chance.randrange(150)}": chance.uniform(0, 6.28) for _ in range(60)}
        await scoped.write_many(SCOPE, changed)
        angles |= changed
        for gone in chance.sample(sorted(angles), 10):
            await scoped.delete(SCOPE, gone)
            del angles[gone]
        asked = chance.uniform(0, 6.28)
        scores = {key: math.cos(angle - asked) for key, angle in angles.items()}
        wanted = sorted((key for key in scores if scores[key] > 0), key=lambda key: -scores[key])
        options = SearchOptions()
        found = await scoped.search(SCOPE, str(asked), limit, options, mode="semantic")
        assert [each.key for each in found] == wanted[:limit]
        for each in found:
            assert each.score == pytest.approx(scores[each.key], abs=1e-5)


async def test_an_async_embedder_is_awaited(store: foldlog.Store) -> None:
    async def embedder(texts: list[str]) -> list[list[float]]:
        return Painter()(texts)

    scoped = store.scoped.with_search(embedder=embedder)
    await scoped.write(SCOPE, "a", "green")
    assert await keys(scoped, "green", "semantic") == ["a"]


@pytest.mark.parametrize(
    "given", [[[1.0]], [[1.0], [1.0], [1.0]], ["a", "b"], [1.0, 2.0], [[float("nan")]] * 2, None]
)
async def test_what_is_no_vector_for_each_text_is_refused(store: foldlog.Store, given: Any) -> None:
    scoped = store.scoped.with_search(embedder=lambda texts: given)
    await scoped.write_many(SCOPE, {"a": 1, "b": 2})
    with pytest.raises(EmbedderFailed):
        await keys(scoped, "a")
    assert await keys(scoped, "a", "text") == ["a"]


async def test_what_an_embedder_raises_is_told(store: foldlog.Store) -> None:
    def broken(texts: list[str]) -> Any:
        raise OSError("no model")

    scoped = store.scoped.with_search(embedder=broken)
    await scoped.write(SCOPE, "a", 1)
    with pytest.raises(EmbedderFailed, match="OSError: no model"):
        await keys(scoped, "a")


async def test_the_offline_embedder_needs_no_network(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **options: Any) -> Any:
        raise AssertionError("it asked the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    scoped = store.scoped.with_search(embedder=OfflineEmbedder())
    await scoped.write_many(SCOPE, {"a": "a dog barks", "b": "stock prices fell"})
    assert (await keys(scoped, "a puppy makes noise", "semantic"))[0] == "a"


async def test_the_docs_tell_the_recall_that_is_measured(store: foldlog.Store) -> None:
    scoped = store.scoped.with_search(embedder=OfflineEmbedder())
    await fill(scoped)
    modes: tuple[Mode, ...] = ("text", "semantic", "both")
    measured = {mode: await recall(scoped, mode) for mode in modes}
    page = ROOT.joinpath("docs/guides/scoped.md").read_text("utf-8")
    told = dict(re.findall(r"^\| (text|semantic|both) \| ([\d.]+) \|$", page, re.MULTILINE))
    assert {mode: f"{value:.2f}" for mode, value in measured.items()} == told
    assert measured["semantic"] > measured["text"]
    assert measured["both"] >= max(measured["text"], measured["semantic"])
