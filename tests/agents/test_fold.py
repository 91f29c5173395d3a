"""The fold of an agent's turns: values put together late, entries that never change."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from foldlog import codec
from foldlog.envelope import Recorded
from foldlog_projections.agents import agentstates
from foldlog_projections.agents.agentstates import AgentState, Change, Entry, Turned
from foldlog_projections.delta import difference

encode = msgspec.msgpack.Encoder().encode

VALUES = st.recursive(
    st.none() | st.integers(-5, 5) | st.text("ab", max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("kl", max_size=2), inner),
    max_leaves=8,
)


def change(key: str, old: Any, new: Any) -> Change:
    return Change(key, msgspec.Raw(encode(difference(old, new) or [1, {}, []])), "T", 1)


def folded(state: AgentState, seq: int, *changes: Change, **turn: Any) -> AgentState:
    payload = encode(Turned(changes, **turn))
    envelope = Recorded(f"e{seq}", agentstates.TURNED, 1, 0.0, payload, None, seq, 0, "")
    return agentstates.kind.apply(state, envelope)


def value(entry: Entry) -> Any:
    return codec.decode(entry.raw)


@given(values=st.lists(VALUES.map(lambda v: {"v": v}), min_size=1, max_size=12), data=st.data())
def test_every_entry_is_what_was_written_whenever_it_is_read(
    values: list[Any], data: st.DataObject
) -> None:
    state, entries, old = AgentState(), [], None
    for number, new in enumerate(values, 1):
        state = folded(state, number, change("k", old, new))
        entries.append(state.entries["k"])
        old = new
        if data.draw(st.booleans()):
            assert value(entries[data.draw(st.integers(0, number - 1))]) is not None
    for number in data.draw(st.permutations(range(len(values)))):
        assert value(entries[number]) == values[number]
        assert entries[number].version == number + 1


def test_what_follows_an_earlier_entry_does_not_change_the_later_ones() -> None:
    state = folded(AgentState(), 1, change("k", None, {"n": [1]}))
    first = state.entries["k"]
    second = first.followed_by(change("k", {"n": [1]}, {"n": [1, 2]}), 2, 0.0)
    other = first.followed_by(change("k", {"n": [1]}, {"n": [1, 3]}), 2, 0.0)
    assert [value(entry) for entry in (first, second, other)] == [
        {"n": [1]},
        {"n": [1, 2]},
        {"n": [1, 3]},
    ]


def test_a_turn_in_parts_takes_effect_with_the_last() -> None:
    state = folded(AgentState(), 1, change("k", None, {"n": 1}), turn="t", partial=True)
    assert state.entries == {}
    state = folded(state, 1, change("k", {"n": 1}, {"n": 1, "m": 2}), turn="t")
    assert value(state.entries["k"]) == {"n": 1, "m": 2}


def test_parts_of_a_turn_that_was_never_completed_are_void() -> None:
    state = folded(AgentState(), 1, change("k", None, {"n": 1}), turn="t", partial=True)
    state = folded(state, 2, change("l", None, {"n": 2}))
    assert list(state.entries) == ["l"]
    state = folded(state, 3, change("m", None, {"n": 3}), turn="t")
    assert list(state.entries) == ["l", "m"]


def test_what_is_gone_begins_anew() -> None:
    state = folded(AgentState(), 1, change("k", None, {"n": 1}))
    state = folded(state, 2, Change("k", gone=True))
    assert state.entries == {}
    state = folded(state, 3, change("k", None, {"n": 2}))
    assert value(state.entries["k"]) == {"n": 2}


def test_it_is_kept_whole_and_shares_nothing() -> None:
    state = folded(AgentState(), 1, change("k", None, {"n": [1]}))
    state = folded(state, 2, change("l", None, {"n": 2}), turn="t", partial=True)
    kept = agentstates.kind.restore(agentstates.kind.keep(state))
    assert kept == state
    before = copy.deepcopy(agentstates.kind.keep(kept))
    folded(state, 3, change("k", {"n": [1]}, {"n": [1, 2]}))
    assert agentstates.kind.keep(kept) == before


def test_a_delta_to_another_value_is_corrupt() -> None:
    state = folded(AgentState(), 1, change("k", {"n": 1}, {"n": 1, "m": 2}))
    with pytest.raises(msgspec.ValidationError):
        _ = state.entries["k"].raw
