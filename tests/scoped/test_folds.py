"""The folds of scoped state, without a store."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from foldlog.envelope import Recorded
from foldlog_projections import scopes
from foldlog_projections.scopes import State, with_prefix

BEGAN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def envelope(number: int, type: str, at: float, **payload: Any) -> Recorded:
    time = (BEGAN + dt.timedelta(seconds=at)).isoformat()
    raw = msgspec.msgpack.encode(payload)
    return Recorded(f"id-{number}", type, 1, 0.0, raw, None, number + 1, 0, time)


def fold(*steps: tuple[Any, ...]) -> State:
    state = scopes.kind.initial()
    for number, (type, at, payload) in enumerate(steps):
        state = scopes.kind.apply(state, envelope(number, type, at, **payload))
    return state


def write(key: str, at: float = 0.0, **hints: Any) -> tuple[Any, ...]:
    return scopes.WRITTEN, at, {"key": key, **hints}


def link(from_key: str, to_key: str, relation: str = "r", at: float = 0.0) -> tuple[Any, ...]:
    return scopes.LINKED, at, {"from_key": from_key, "to_key": to_key, "relation": relation}


def delete(key: str, at: float = 0.0) -> tuple[Any, ...]:
    return scopes.DELETED, at, {"key": key}


def test_keys_stand_sorted_and_in_the_order_of_their_last_writes() -> None:
    state = fold(write("b"), write("a"), write("c"), write("b"), delete("a"), delete("x"))
    assert state.keys == ["b", "c"]
    assert list(state.entries) == ["c", "b"]
    assert [entry.ordinal for entry in state.entries.values()] == [2, 3]
    assert state.gone == {"a": 4}
    assert fold(write("a"), delete("a"), write("a")).gone == {}


def test_what_is_over_goes_with_the_next_envelope_and_takes_its_links_along() -> None:
    steps = [write("a", 0, ttl=1000), link("a", "b"), link("b", "a"), link("b", "c")]
    state = fold(*steps, write("b", 0.999))
    assert set(state.entries) == {"a", "b"}
    assert state.entries["a"].is_over(BEGAN.timestamp() + 1)
    assert not state.entries["a"].is_over(BEGAN.timestamp() + 0.999)
    state = fold(*steps, write("b", 1.0))
    assert set(state.entries) == {"b"}
    assert state.links == {"b": {("c", "r"): b"\xc0"}}
    assert state.incoming == {"c": {"b": None}}
    # Written again meanwhile, it has the time of the last write.
    state = fold(write("a", 0, ttl=1000), write("a", 0.5), write("b", 99))
    assert set(state.entries) == {"a", "b"}


def test_an_unknown_envelope_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        fold(("scope.renamed", 0, {}))


KEYS = st.sampled_from(["a", "ab", "b", "ba", "é"])
STEPS = st.lists(
    st.one_of(
        st.builds(
            lambda key, ttl, blob: (scopes.WRITTEN, {"key": key, "ttl": ttl, "blob": blob}),
            KEYS,
            st.sampled_from([-1, 0, 1500, 3000]),
            st.sampled_from(["", "blob"]),
        ),
        st.builds(lambda key: (scopes.DELETED, {"key": key}), KEYS),
        st.builds(
            lambda type, a, b, r: (type, {"from_key": a, "to_key": b, "relation": r}),
            st.sampled_from([scopes.LINKED, scopes.UNLINKED]),
            KEYS,
            KEYS,
            st.sampled_from("rs"),
        ),
    ),
    max_size=30,
)


@given(STEPS, st.integers(0, 30), st.text(st.sampled_from("abé"), max_size=2))
def test_the_fold_agrees_with_a_plain_one_and_with_its_snapshot(
    steps: list[tuple[str, dict[str, Any]]], cut: int, prefix: str
) -> None:
    state = scopes.kind.initial()
    alive: dict[str, float] = {}
    links: set[tuple[str, str, str]] = set()
    for number, (type, payload) in enumerate(steps):
        now = float(number)
        for key in [key for key, end in alive.items() if end <= now]:
            del alive[key]
            links = {each for each in links if key not in each[:2]}
        if number == cut:
            state = scopes.kind.restore(scopes.kind.keep(state))
        state = scopes.kind.apply(state, envelope(number, type, now, **payload))
        if type == scopes.WRITTEN:
            ttl = payload["ttl"]
            alive[payload["key"]] = now + ttl / 1000 if ttl >= 0 else float("inf")
        elif type == scopes.DELETED:
            if alive.pop(payload["key"], None) is not None:
                links = {each for each in links if payload["key"] not in each[:2]}
        else:
            edge = (payload["from_key"], payload["to_key"], payload["relation"])
            links = links | {edge} if type == scopes.LINKED else links - {edge}
    assert state.keys == sorted(alive) == sorted(state.entries)
    assert with_prefix(state, prefix) == [key for key in state.keys if key.startswith(prefix)]
    assert {
        (from_key, to_key, relation)
        for from_key, edges in state.links.items()
        for to_key, relation in edges
    } == links
    assert {(a, b) for b, sources in state.incoming.items() for a in sources} == {
        (a, b) for a, b, _ in links
    }
    assert state == scopes.kind.restore(scopes.kind.keep(state))
    assert not set(state.gone) & set(state.entries)
