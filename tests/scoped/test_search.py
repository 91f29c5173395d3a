"""Search: full text over keys and values, from an index that can always be made again."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog import ConfigurationError
from foldlog.errors import Misuse
from foldlog.log.memory import MemoryLog
from foldlog.scoped import (
    ContentKind,
    MemoryLink,
    MemoryTier,
    Scope,
    SearchFailed,
    SearchOptions,
    SearchResult,
    StoreOptions,
)
from foldlog.scoped.documents import Text
from foldlog.scoped.index import Index
from tests.conftest import OpenStore
from tests.scoped.quality import fill, recall

ONE = Scope.session("s1")


async def keys(scoped: Any, query: str, limit: int = 10, **options: Any) -> list[str]:
    found = await scoped.search(ONE, query, limit, SearchOptions(**options))
    assert all(0 < each.score <= 1 for each in found)
    assert [each.score for each in found] == sorted((e.score for e in found), reverse=True)
    return [each.key for each in found]


async def test_words_of_keys_and_values_are_found(store: foldlog.Store) -> None:
    scoped = store.scoped
    await scoped.write(ONE, "deploy:steps", {"how": "run make release", "then": ["wait", 42]})
    await scoped.write(ONE, "note", "the release was Déployed in Zürich")
    await scoped.write(ONE, "number", 42)
    await scoped.write(ONE, "empty", None)
    for each in (scoped, scoped.reader):
        assert sorted(await keys(each, "release")) == ["deploy:steps", "note"]
        assert sorted(await keys(each, "RELEASES, releasing!")) == ["deploy:steps", "note"]
        assert await keys(each, "zurich") == ["note"]
        assert sorted(await keys(each, "deployed")) == ["deploy:steps", "note"]
        assert await keys(each, "steps") == ["deploy:steps"]
        assert await keys(each, "42") == ["number", "deploy:steps"]
        assert await keys(each, "then") == ["deploy:steps"]
        assert await keys(each, "nothing of it") == []
        assert await each.search(ONE, "release", 1) == (await each.search(ONE, "release", 9))[:1]
        assert await each.search(ONE, "release", 0) == []
        assert await each.search(ONE, "release", -1) == []


async def test_letters_that_fold_into_several_are_found_as_they_stand(
    store: foldlog.Store,
) -> None:
    await store.scoped.write(ONE, "address", "Lange Straße 7")
    for query in ("Straße", "STRAße"):
        assert await keys(store.scoped, query) == ["address"]


async def test_a_number_that_nobody_writes_out_hinders_no_search(store: foldlog.Store) -> None:
    await store.scoped.write(ONE, "huge", {"number": 10**5000, "word": "there"})
    assert await keys(store.scoped, "there") == ["huge"]
    held = await store.scoped.read(ONE, "huge")
    assert held == {"number": 10**5000, "word": "there"}


async def test_a_limit_may_be_any_number(store: foldlog.Store) -> None:
    await store.scoped.write(ONE, "a", "word")
    assert await keys(store.scoped, "word", limit=2**70) == ["a"]


@pytest.mark.parametrize(
    "query", ["", " ", "?!", '"', "a\x00b", "NEAR(", "AND OR NOT", "key:", "-x", "*", "é" * 9000]
)
async def test_no_query_is_an_error(store: foldlog.Store, query: str) -> None:
    await store.scoped.write(ONE, "key", "NEAR AND OR NOT a b x")
    found = await store.scoped.search(ONE, query, 5)
    assert [each.key for each in found] in ([], ["key"])


async def test_what_has_more_of_the_query_comes_first(store: foldlog.Store) -> None:
    scoped = store.scoped
    await scoped.write_many(ONE, {f"noise-{n}": f"green number {n}" for n in range(20)})
    await scoped.write(ONE, "both", "green tea")
    await scoped.write(ONE, "one", "black tea from the hills")
    [first, second, third, *_] = await scoped.search(ONE, "green tea", 30)
    assert (first.key, second.key, third.key[:5]) == ("both", "one", "noise")
    assert first.score > second.score > 100 * third.score
    assert await keys(scoped, "green tea", min_score=first.score) == ["both"]
    assert await keys(scoped, "green tea", min_score=1.0) == []


async def test_a_snippet_shows_where_the_words_are(store: foldlog.Store) -> None:
    text = " ".join(["before"] * 200 + ["needle"] + ["after"] * 200)
    await store.scoped.write(ONE, "hay", {"text": text})
    [found] = await store.scoped.search(ONE, "needle", 1)
    assert found.snippet is not None
    assert "needle" in found.snippet
    assert len(found.snippet) < 200
    [found] = await store.scoped.search(ONE, "hay", 1)  # by its key
    assert found.snippet is not None
    assert found.snippet.startswith("text: before")


async def test_results_are_filtered_by_kind_and_tier(store: foldlog.Store) -> None:
    scoped = store.scoped
    custom = ContentKind.custom("episodic")
    for key, options in {
        "plain": StoreOptions(),
        "hot": StoreOptions(tier=MemoryTier.HOT, content_kind=ContentKind.EPISODIC),
        "cold": StoreOptions(tier=MemoryTier.COLD, content_kind=custom),
    }.items():
        await scoped.write(ONE, key, "word", options)
    assert sorted(await keys(scoped, "word")) == ["cold", "hot", "plain"]
    assert await keys(scoped, "word", content_kind=ContentKind.EPISODIC) == ["hot"]
    assert await keys(scoped, "word", content_kind=custom) == ["cold"]
    assert await keys(scoped, "word", content_kind=ContentKind.SEMANTIC) == []
    assert sorted(await keys(scoped, "word", tier=MemoryTier.HOT)) == ["hot", "plain"]
    assert await keys(scoped, "word", tier=MemoryTier.COLD) == ["cold"]
    assert await keys(scoped, "word", tier=MemoryTier.WARM) == []


async def test_salience_breaks_ties(store: foldlog.Store) -> None:
    for key, salience in (("a", 0.1), ("b", 0.9), ("c", None), ("d", 0.9)):
        await store.scoped.write(ONE, key, "word", StoreOptions(salience=salience))
    assert await keys(store.scoped, "word") == ["b", "d", "c", "a"]
    assert await keys(store.scoped, "word", limit=2) == ["b", "d"]


async def test_results_lead_along_links(store: foldlog.Store) -> None:
    scoped = store.scoped
    await scoped.write_many(ONE, {"a": "word", "b": "b", "c": "c", "d": "word too long"})
    await scoped.write(ONE, "cold", "x", StoreOptions(tier=MemoryTier.COLD))
    for from_key, to_key in (("a", "b"), ("b", "c"), ("c", "a"), ("a", "cold"), ("a", "nowhere")):
        await scoped.link(ONE, MemoryLink(from_key, to_key, "r"))
    assert await keys(scoped, "word") == ["a", "d"]
    assert await keys(scoped, "word", max_depth=0) == ["a", "d"]
    near = await scoped.search(ONE, "word", 9, SearchOptions(max_depth=1))
    scores = {each.key: each.score for each in near}
    assert set(scores) == {"a", "d", "b", "cold"}
    assert scores["b"] == pytest.approx(scores["a"] / 2)
    assert [each.snippet for each in near if each.key == "b"] == ["b"]
    far = await scoped.search(ONE, "word", 9, SearchOptions(max_depth=9))
    assert {each.key for each in far} == {"a", "d", "b", "c", "cold"}
    assert set(await keys(scoped, "word", max_depth=9, tier=MemoryTier.HOT)) == {*"abcd"}
    assert await keys(scoped, "word", max_depth=9, min_score=scores["d"]) == ["a", "d"]


async def test_the_index_follows_what_is_written_here_and_elsewhere(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    scoped, other = store.scoped, (await reopen()).scoped
    await scoped.write(ONE, "a", "first")
    for each in (scoped, other):
        assert await keys(each, "first") == ["a"]
    await other.write(ONE, "a", "second")
    await other.write(ONE, "b", "second")
    await scoped.write_many(ONE, {f"n{number}": "third" for number in range(5)})
    for each in (scoped, other):
        found = await each.search(ONE, "second", 9, SearchOptions(), consistency="strong")
        assert [result.key for result in found] == ["a", "b"]
        assert await keys(each, "first") == []
        assert len(await keys(each, "third")) == 5
    await scoped.delete(ONE, "a")
    await other.delete(ONE, "b")
    for each in (scoped, other):
        found = await each.search(ONE, "second", 9, SearchOptions(), consistency="strong")
        assert found == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("東京", ["chinese", "japanese"]),
        ("住んで", ["japanese"]),
        ("都", ["japanese"]),
        ("京", ["chinese", "japanese"]),
        ("大阪", []),
        ("회의", ["korean"]),
        ("의는", ["korean"]),
        ("ประชุม", ["thai"]),
        ("foldlog", ["japanese"]),
        ("हिन्दी", ["hindi"]),
        ("customer", ["camel", "kebab", "snake"]),
        ("name", ["camel", "kebab", "snake"]),
        ("customerName", ["camel", "kebab", "snake"]),
        ("http", ["acronym"]),
        ("HTTPServer", ["acronym"]),
        ("server", ["acronym"]),
    ],
)
async def test_words_inside_words_are_found(
    store: foldlog.Store, query: str, found: list[str]
) -> None:
    await store.scoped.write_many(
        ONE,
        {
            "japanese": "foldlogは東京都に住んでいます",
            "chinese": "我明天去东京,就是東京。",
            "korean": "오늘의 회의는 세 시에 시작합니다",
            "thai": "เรามีประชุมพรุ่งนี้ตอนเช้า",
            "hindi": "मैं हिन्दी बोलता हूँ",
            "camel": {"customerName": "Ada"},
            "snake": {"customer_name": "Ada"},
            "kebab": "the customer-name of Ada",
            "acronym": "HTTPServer",
            **{f"noise-{n}": f"nothing of it {n}" for n in range(20)},
        },
    )
    assert sorted(await keys(store.scoped, query, limit=30)) == found


async def test_a_snippet_shows_a_word_inside_a_long_one(store: foldlog.Store) -> None:
    await store.scoped.write(ONE, "long", "山" * 5000 + "東京" + "川" * 5000)
    [found] = await store.scoped.search(ONE, "東京", 1)
    assert found.snippet is not None
    assert "東京" in found.snippet
    assert len(found.snippet) < 200


# --- the index files ----------------------------------------------------------------------------


@pytest.fixture
async def memory() -> AsyncIterator[foldlog.Store]:
    async with foldlog.memory_store() as store:
        yield store


def indexed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys whose texts are taken into an index from now on."""
    taken: list[str] = []
    take = Index.take

    def counted(index: Index, texts: Sequence[Text]) -> None:
        taken.extend(each.key for each in texts)
        take(index, texts)

    monkeypatch.setattr(Index, "take", counted)
    return taken


async def test_an_index_that_is_kept_takes_in_only_what_is_new(
    memory: foldlog.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = indexed(monkeypatch)
    one = memory.scoped.with_search(path=tmp_path)
    await one.write_many(ONE, {"a": "word", "b": "word", "c": "word"})
    assert await keys(one, "word") == ["a", "b", "c"]
    assert sorted(taken) == ["a", "b", "c"]
    await one.write(ONE, "b", "other")
    await one.delete(ONE, "c")
    another = memory.scoped.with_search(path=tmp_path)
    assert await keys(another, "word") == ["a"]
    assert taken[3:] == ["b"]
    assert sorted(await keys(one, "word other")) == ["a", "b"]
    assert taken[4:] == []


@pytest.mark.parametrize(
    "damage", ["missing", "torn", "foreign", "newer", "empty", "words", "gaps", "schema"]
)
async def test_an_index_that_is_missing_or_damaged_is_made_again(
    memory: foldlog.Store, tmp_path: Path, damage: str
) -> None:
    one = memory.scoped.with_search(path=tmp_path)
    await one.write_many(ONE, {"a": "word", "b": "other"})
    await keys(one, "word")
    await one.close()
    [path] = list(tmp_path.glob("*.db"))  # noqa: ASYNC240 - one look at a local directory
    match damage:
        case "missing":
            path.unlink()
        case "torn":
            path.write_bytes(path.read_bytes()[:5000])
        case "foreign":
            path.write_bytes(b"no database at all" * 1000)
        case "newer":
            damaged(path, f"PRAGMA user_version = {Index.format + 1}")
        case "empty":
            path.write_bytes(b"")
        case "words":
            damaged(path, "UPDATE texts_data SET block = x'ffffffffffffffff'")
        case "gaps":
            damaged(path, "DELETE FROM texts_docsize")
        case "schema":  # what SQLite quotes of it is no UTF-8
            break_schema(path)
    another = memory.scoped.with_search(path=tmp_path)
    assert await keys(another, "word") == ["a"]


async def test_a_clearing_removes_an_index_whose_schema_is_damaged(
    memory: foldlog.Store, tmp_path: Path
) -> None:
    one = memory.scoped.with_search(path=tmp_path)
    await one.write(ONE, "a", "word")
    await keys(one, "word")
    await one.close()
    [path] = list(tmp_path.glob("*.db"))  # noqa: ASYNC240 - one look at a local directory
    break_schema(path)
    another = memory.scoped.with_search(path=tmp_path)
    await another._indexes.forget(ONE)
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - as above


def break_schema(path: Path) -> None:
    whole, broken = b"synced (seq INTEGER NOT NULL", b"synced (seq INTEGER NOT NUL\xb3"
    data = path.read_bytes()
    assert whole in data
    path.write_bytes(data.replace(whole, broken))


def damaged(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as database:
        database.execute(statement)
    database.close()


async def test_who_has_heard_of_less_does_not_set_an_index_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryLog, "known", lambda log, shard: 0)
    log = MemoryLog()
    async with foldlog.memory_store(log=log) as one, foldlog.memory_store(log=log) as two:
        first, second = (each.scoped.with_search(path=tmp_path) for each in (one, two))
        await first.write(ONE, "a", "word")
        assert await keys(second, "word") == ["a"]
        await first.write(ONE, "b", "word")
        assert await first.list(ONE, consistency="strong") == ["a", "b"]
        assert await keys(second, "word") == ["a", "b"]
        assert await second.list(ONE) == ["a", "b"]
        await second.write(ONE, "c", "word")
        for each in (first, second):
            assert await each.list(ONE, consistency="strong") == ["a", "b", "c"]


async def test_an_index_of_another_log_is_not_believed(tmp_path: Path) -> None:
    for word in ("first", "second"):
        async with foldlog.memory_store() as store:
            scoped = store.scoped.with_search(path=tmp_path)
            await scoped.write_many(ONE, {"a": word, word: "x"})
            assert sorted(await keys(scoped, "first second")) == sorted(["a", word])


async def test_an_index_that_cannot_be_kept_is_an_error(
    memory: foldlog.Store, tmp_path: Path
) -> None:
    tmp_path.joinpath("file").write_text("in the way")
    scoped = memory.scoped.with_search(path=tmp_path / "file" / "below")
    await scoped.write(ONE, "a", 1)
    with pytest.raises(SearchFailed):
        await scoped.search(ONE, "a", 1)
    assert await scoped.read(ONE, "a") == 1


async def test_more_scopes_than_are_open_at_once_are_searched(
    memory: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foldlog.scoped.indexes._OPEN", 2)
    scopes = [Scope.session(f"s{number}") for number in range(5)]
    for scope in scopes:
        await memory.scoped.write(scope, "key", f"word {scope.ids[0]}")
    for scope in (*scopes, *scopes):
        [found] = await memory.scoped.search(scope, "word", 5)
        assert found == SearchResult("key", found.score, f"word {scope.ids[0]}")


async def test_an_embedded_store_keeps_its_indexes_with_its_data(tmp_path: Path) -> None:
    async with foldlog.connect(path=tmp_path / "data") as store:
        await store.scoped.write(ONE, "key", "word")
        assert await keys(store.scoped, "word") == ["key"]
    [path] = (tmp_path / "data" / "search").glob("*/*.db")
    assert path.stat().st_mode & 0o777 == 0o600


# --- semantic -----------------------------------------------------------------------------------


async def test_semantic_search_says_what_it_lacks(
    memory: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.scoped.write(ONE, "a", 1)
    mode: Any
    for mode in ("semantic", "both", "odd"):
        with pytest.raises(Misuse):
            await memory.scoped.search(ONE, "a", 1, SearchOptions(), mode=mode)
    monkeypatch.setitem(sys.modules, "numpy", None)
    scoped = memory.scoped.with_search(embedder=lambda texts: [[1.0]] * len(texts))
    with pytest.raises(ConfigurationError, match=r"foldlog\[semantic\]"):
        await scoped.search(ONE, "a", 1)
    assert await scoped.search(ONE, "a", 1, SearchOptions(), mode="text")


def test_without_its_package_the_offline_embedder_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from foldlog.scoped import OfflineEmbedder

    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(ConfigurationError, match=r"foldlog\[semantic\]"):
        OfflineEmbedder()


async def test_text_search_answers_questions_in_the_same_words(memory: foldlog.Store) -> None:
    await fill(memory.scoped)
    assert await recall(memory.scoped, "text") == pytest.approx(0.57, abs=0.005)
