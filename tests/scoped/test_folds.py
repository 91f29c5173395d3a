"""The index of a scope as the fold of its changes, without a store."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from foldlog import LogCorrupt
from foldlog.envelope import CLEARED, Recorded
from foldlog.log.port import Record
from foldlog.scoped.index import Edge, Index, Synced
from foldlog.scoped.records import events_of
from foldlog.subjects import Namespace
from foldlog_projections.scoped import scoped
from foldlog_projections.scoped.scoped import OWN

BEGAN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NOW = BEGAN.timestamp()

Step = tuple[str, float, dict[str, Any]]


@pytest.fixture
def index() -> Iterator[Index]:
    with closing(Index(None)) as index:
        yield index


def record(number: int, step: Step, **writer: Any) -> Record:
    type, at, payload = step
    time = (BEGAN + dt.timedelta(seconds=at)).isoformat()
    subject = Namespace().subject("scoped", "s", payload.get("key", OWN))
    raw = msgspec.msgpack.encode({k: v for k, v in payload.items() if k != "key"})
    envelope = Recorded(f"id-{number}", type, 1, 0.0, raw, subject.keys, number, 0, time, **writer)
    return Record(number, [envelope], subject=subject.name)


def fold(index: Index, *steps: Step) -> None:
    since = index.synced()
    for number, step in enumerate(steps, since.seq + 1):
        since = index.fold(events_of([record(number, step)]), since) or since


def write(key: str, at: float = 0.0, **hints: Any) -> Step:
    return scoped.WRITTEN, at, {"key": key, **hints}


def link(from_key: str, to_key: str, relation: str = "r", at: float = 0.0) -> Step:
    return scoped.LINKED, at, {"from_key": from_key, "to_key": to_key, "relation": relation}


def delete(key: str, at: float = 0.0) -> Step:
    return scoped.DELETED, at, {"key": key}


def keys(index: Index) -> list[str]:
    return index.keys(-1e12, "")


def test_keys_stand_sorted_and_in_the_order_of_their_last_writes(index: Index) -> None:
    fold(index, write("b"), write("a"), write("c"), write("b"), delete("a"), delete("x"))
    assert keys(index) == ["b", "c"]
    assert index.synced() == Synced(6, "id-6", 6)
    assert index.present(NOW, "") == (6, [("c", "id-3"), ("b", "id-4")])


@pytest.mark.parametrize("prefix", ["", "a", "a\U0010ffff", "\ud7ff", "\U0010ffff", "é", "a\0"])
def test_a_prefix_selects_what_begins_with_it_and_nothing_else(index: Index, prefix: str) -> None:
    tails = ["", "a", "b", "\0", "é", "\ue000", "\U0010ffff", "\U0010ffff\U0010ffff"]
    every = {stem + tail for stem in ["", "a", "b", "\ud7ff", "\ue000", "é"] for tail in tails} - {
        ""
    }
    fold(index, *map(write, every))
    assert index.keys(NOW, prefix) == sorted(key for key in every if key.startswith(prefix))


def test_what_is_over_goes_with_the_next_change_and_takes_its_links_along(index: Index) -> None:
    fold(index, write("a", 0, ttl=1000), link("a", "b"), link("b", "a"), link("b", "c"))
    fold(index, write("b", 0.999))
    assert keys(index) == ["a", "b"]
    assert index.keys(NOW + 1, "") == ["b"]
    assert index.keys(NOW + 0.999, "") == ["a", "b"]
    assert index.edges(NOW + 1, "b") == [Edge("c", "r", b"\xc0")]
    assert len(index.edges(NOW + 0.999, "b")) == 2
    fold(index, write("b", 1.0))
    assert keys(index) == ["b"]
    assert index.edges(0.0, "b") == [Edge("c", "r", b"\xc0")]
    # Written again meanwhile, it has the time of the last write.
    fold(index, write("a", 2, ttl=1000), write("a", 2.5), write("b", 99))
    assert keys(index) == ["a", "b"]


def test_an_unknown_change_is_refused_and_nothing_of_its_page_is_folded(index: Index) -> None:
    page = [record(1, write("a")), record(2, ("scope.renamed", 0, {}))]
    with pytest.raises(LogCorrupt):
        index.fold(events_of(page), Synced())
    assert (keys(index), index.synced()) == ([], Synced())


def test_a_key_that_is_cleared_goes_with_its_links(index: Index) -> None:
    fold(index, write("a"), write("b"), link("a", "b"), link("b", "c"))
    fold(index, (CLEARED, 0, {"refused": b"", "key": "a"}))
    assert keys(index) == ["b"]
    assert index.edges(NOW, "a") == []
    assert len(index.edges(NOW, "b")) == 1


def test_a_clearing_begins_anew(index: Index) -> None:
    fold(index, write("a"), link("a", "b"), (CLEARED, 0, {"refused": b""}), write("b"))
    assert keys(index) == ["b"]
    assert index.edges(NOW, "a") == []
    assert index.synced() == Synced(4, "id-4", 1)


def test_a_change_has_one_effect_and_none_after_a_later_one_of_its_writer(index: Index) -> None:
    def folded(number: int, step: Step, writer: str, n: int) -> None:
        assert index.fold(events_of([record(number, step, writer=writer, n=n)]), index.synced())

    folded(1, write("a", tier="hot"), "one", 5)
    folded(2, write("b"), "one", 4)
    folded(3, write("a", tier="warm"), "two", 1)
    folded(4, write("a", tier="hot"), "one", 5)  # again
    folded(5, write("a", tier="cold"), "one", 3)  # late
    folded(6, link("a", "b"), "one", 2)
    folded(7, (scoped.UNLINKED, 0, link("a", "b")[2]), "one", 1)  # late
    entries = index.database.execute("SELECT key, tier, version, seq FROM entries")
    assert list(entries) == [("a", "warm", "id-3", 5), ("b", "", "id-2", 2)]
    assert len(index.edges(NOW, "a")) == 1


def test_what_is_asked_sees_one_moment_whatever_others_write(tmp_path: Path) -> None:
    with closing(Index(tmp_path / "x.db")) as one, closing(Index(tmp_path / "x.db")) as other:
        fold(one, write("a"))

        with one.transaction("DEFERRED"):
            found = keys(one)
            fold(other, write("b"))
            assert (found, one.synced()) == (["a"], Synced(1, "id-1", 1))
        assert keys(one) == ["a", "b"]
        assert one.synced() == Synced(2, "id-2", 2)


def test_who_is_behind_folds_nothing(index: Index) -> None:
    fold(index, write("a"))
    assert index.fold(events_of([record(1, delete("a"))]), Synced()) is None
    assert keys(index) == ["a"]


KEYS = st.sampled_from(["a", "ab", "b", "ba", "é"])
STEPS = st.lists(
    st.one_of(
        st.builds(
            lambda key, ttl: (scoped.WRITTEN, {"key": key, "ttl": ttl}),
            KEYS,
            st.sampled_from([-1, 0, 1500, 3000]),
        ),
        st.builds(lambda key: (scoped.DELETED, {"key": key}), KEYS),
        st.builds(
            lambda type, a, b, r: (type, {"from_key": a, "to_key": b, "relation": r}),
            st.sampled_from([scoped.LINKED, scoped.UNLINKED]),
            KEYS,
            KEYS,
            st.sampled_from("rs"),
        ),
    ),
    max_size=30,
)


@given(STEPS, st.integers(0, 30), st.text(st.sampled_from("abé"), max_size=2))
def test_the_fold_agrees_with_a_plain_one_however_it_is_cut_into_pages(
    steps: list[tuple[str, dict[str, Any]]], cut: int, prefix: str
) -> None:
    alive: dict[str, float] = {}
    links: set[tuple[str, str, str]] = set()
    records: list[Record] = []
    for number, (type, payload) in enumerate(steps):
        now = float(number)
        for key in [key for key, end in alive.items() if end <= now]:
            del alive[key]
            links = {each for each in links if key not in each[:2]}
        records.append(record(number + 1, (type, now, payload)))
        if type == scoped.WRITTEN:
            ttl = payload["ttl"]
            alive[payload["key"]] = now + ttl / 1000 if ttl >= 0 else float("inf")
        elif type == scoped.DELETED:
            if alive.pop(payload["key"], None) is not None:
                links = {each for each in links if payload["key"] not in each[:2]}
        else:
            edge = (payload["from_key"], payload["to_key"], payload["relation"])
            links = links | {edge} if type == scoped.LINKED else links - {edge}
    with closing(Index(None)) as index:
        for page in (records[:cut], records[cut:]):
            if page:
                assert index.fold(events_of(page), index.synced()) is not None
        assert keys(index) == sorted(alive)
        assert index.keys(-1e12, prefix) == [key for key in keys(index) if key.startswith(prefix)]
        found = {(a, e.to_key, e.relation) for a, *_ in links for e in index.edges(-1e12, a)}
        assert found == links


def embedded(key: str, version: str, vector: bytes = b"1234") -> Step:
    return scoped.EMBEDDED, 0, {"key": key, "version": version, "model": "m", "vector": vector}


def test_a_vector_counts_for_the_value_that_it_was_made_of(index: Index) -> None:
    def vectors() -> list[tuple[str, bytes]]:
        query = "SELECT key, vector FROM vectors JOIN entries USING (id) ORDER BY key"
        return index.database.execute(query).fetchall()

    fold(index, write("a"), write("b"), embedded("a", "id-1", b"aaaa"), embedded("b", "id-2"))
    assert vectors() == [("a", b"aaaa"), ("b", b"1234")]
    assert index.lacking("m", 9) == []
    fold(index, write("a"), embedded("a", "id-1"))
    assert vectors() == [("b", b"1234")]
    [lacking] = index.lacking("m", 9)
    assert (lacking.key, lacking.version, lacking.seq) == ("a", "id-5", 6)
    fold(index, embedded("a", "id-5", b"new!"), delete("b"), embedded("b", "id-2"))
    assert vectors() == [("a", b"new!")]
    assert keys(index) == ["a"]
    page = [record(10, write("c")), record(11, embedded("c", "id-10")), record(12, write("c"))]
    assert index.fold(events_of(page), index.synced()) is not None
    assert vectors() == [("a", b"new!")]


def test_texts_follow_their_keys(index: Index) -> None:
    def texts() -> list[tuple[str, str]]:
        index.database.execute("INSERT INTO texts (texts) VALUES ('integrity-check')")
        return index.database.execute("SELECT title, body FROM texts ORDER BY title").fetchall()

    def value(key: str, text: str) -> Step:
        return scoped.WRITTEN, 0, {"key": key, "value": text}

    fold(index, value("a", "one"), value("b", "two"), value("a", "three"))
    assert texts() == [("a", "three"), ("b", "two")]
    page = [record(4, value("c", "four")), record(5, delete("c")), record(6, delete("b"))]
    assert index.fold(events_of(page), index.synced()) is not None
    assert texts() == [("a", "three")]
    assert index.snippets(["three"], ["a"]) == {"a": "three"}
    fold(index, (CLEARED, 0, {"refused": b""}))
    assert texts() == []
