"""The folds of a LangGraph store, without LangGraph."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest

from foldlog.envelope import Recorded
from foldlog_projections.langgraph import langgraphitems as items, langgraphnamespaces as namespaces
from foldlog_projections.langgraph.langgraphitems import Entry
from tests.support.folding import fold


def at(second: int, type: str, *, n: int = 0, **payload: Any) -> Recorded:
    """A record of the log's second, of one writer; `n` counts its drafts."""
    time = dt.datetime.fromtimestamp(second, dt.UTC).isoformat()
    raw = msgspec.msgpack.encode(payload)
    return Recorded(f"id{second}", type, 1, 0.0, raw, None, second, 0, time, "w", n or second)


def put(second: int, key: str = "k", *, n: int = 0, **more: Any) -> Recorded:
    return at(second, items.PUT, n=n, key=key, value={"n": second}, **more)


def held(*records: Recorded) -> dict[str, Entry]:
    found: dict[str, Entry] = fold(items.kind, records).state
    return found


def test_items_stand_in_the_order_of_their_last_put() -> None:
    found = held(put(1, "a"), put(2, "b"), put(3, "a"), put(4, "c"), at(5, items.DELETED, key="b"))
    assert list(found) == ["a", "c"]
    assert msgspec.msgpack.decode(found["a"].value) == {"n": 3}
    assert (found["a"].created_at, found["a"].updated_at, found["a"].put) == (1.0, 3.0, "id3")


def test_one_that_was_deleted_is_created_anew() -> None:
    found = held(put(1), at(2, items.DELETED, key="k"), put(3))
    assert found["k"].created_at == 3.0


def test_a_sweep_takes_what_was_over_when_it_was_decided() -> None:
    records = [
        put(1, "over", ttl=5.0),
        put(1 + 1, "touched", ttl=5.0),
        put(3, "for ever"),
        at(6, items.TOUCHED, key="touched"),
        at(7, items.TOUCHED, key="absent"),
        at(9, items.SWEPT, at=8.0),
    ]
    assert list(held(*records)) == ["touched", "for ever"]
    assert list(held(*records, at(12, items.SWEPT, at=11.0))) == ["for ever"]


def test_vectors_belong_to_one_put() -> None:
    def embedded(second: int, of: str) -> Recorded:
        return at(second, items.EMBEDDED, key="k", put=of, model="m", vectors=[b"1234"])

    assert held(put(1), embedded(2, "id1"))["k"].vectors == (b"1234",)
    assert held(put(1), put(2), embedded(3, "id1"))["k"].vectors == ()
    assert held(put(1), embedded(2, "id1"), put(3))["k"].vectors == ()
    assert held(embedded(1, "id0")) == {}


def test_a_put_that_arrives_late_gives_way_but_not_to_a_touch() -> None:
    late = put(3, n=1)
    assert msgspec.msgpack.decode(held(put(2, n=2), late)["k"].value) == {"n": 2}
    assert held(at(2, items.DELETED, n=2, key="k"), late) == {}
    touched = held(put(1, n=1), at(2, items.TOUCHED, n=3, key="k"), put(3, n=2))
    assert msgspec.msgpack.decode(touched["k"].value) == {"n": 3}


def test_unknown_records_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"langgraph\.other"):
        held(at(1, "langgraph.other"))


def test_a_snapshot_holds_all_of_it() -> None:
    state = held(put(1, ttl=5.0, paths=["a"]), put(2, "b"))
    assert items.kind.restore(items.kind.keep(state)) == state


def test_no_two_namespaces_have_the_same_key() -> None:
    alike = [("a", "b"), ("a/b",), ("a%2Fb",), ("a%", "b"), ("a", "/b")]
    assert len({items.path_of(each) for each in alike}) == len(alike)
    assert items.path_of(("users", "ä.b")) == "users/ä.b"


def test_namespaces_are_a_tree() -> None:
    records = [
        at(1, namespaces.ADDED, labels=["a", "b"]),
        at(2, namespaces.ADDED, labels=["a"], expires=True),
        at(3, namespaces.ADDED, labels=["a", "b"], expires=True),
        at(4, namespaces.ADDED, labels=["a"]),
    ]
    assert fold(namespaces.kind, records).state == {"a": {"": True, "b": {"": True}}}
