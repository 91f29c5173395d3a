"""Deltas: whatever the two values are, what was made of the one is the other, to the byte."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from foldlog import codec
from foldlog_projections.delta import cut, difference, joined, patch

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=3)
    | st.builds(msgspec.msgpack.Ext, st.integers(1, 3), st.binary(max_size=3))
)
KEYS = st.text(max_size=2) | st.integers(0, 2) | st.booleans() | st.floats() | st.none()
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)


def encoded(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


def as_read(delta: Any) -> Any:
    """A delta as the log gives it back."""
    return msgspec.msgpack.decode(encoded(delta))


@given(VALUES, VALUES)
def test_a_delta_makes_the_one_of_the_other(old: Any, new: Any) -> None:
    delta = difference(old, new)
    if encoded(old) == encoded(new):
        assert delta is None
    else:
        assert encoded(patch(copy.deepcopy(old), as_read(delta))) == encoded(new)


@given(VALUES, VALUES, st.integers(1, 40))
def test_the_parts_of_a_delta_make_it(old: Any, new: Any, limit: int) -> None:
    delta = difference(old, new)
    if delta is not None:
        parts = cut(encoded(delta), limit)
        assert max(map(len, parts)) <= limit
        [made] = joined(parts)
        assert encoded(made) == encoded(delta)


@given(st.lists(VALUES, min_size=2, max_size=6))
def test_deltas_follow_on_each_other(values: list[Any]) -> None:
    state: Any = None
    for value in values:
        delta = difference(state, value)
        state = state if delta is None else patch(state, as_read(delta))
        assert encoded(state) == encoded(value)


@given(st.data())
def test_a_delta_is_never_much_larger_than_the_value(data: st.DataObject) -> None:
    old, new = data.draw(VALUES), data.draw(VALUES)
    assert len(encoded(difference(old, new))) <= len(encoded(new)) + 4


@pytest.mark.parametrize(
    ("old", "new"), [(1, True), (1, 1.0), (0.0, -0.0), ({"a": 1}, {"a": True}), ([1], [1.0])]
)
def test_what_python_calls_equal_is_not_taken_for_the_same(old: Any, new: Any) -> None:
    assert encoded(patch(old, as_read(difference(old, new)))) == encoded(new)


def test_the_order_of_keys_is_kept() -> None:
    old, new = {"a": 1, "b": 2}, {"b": 2, "c": 3, "a": 1}
    assert list(patch(dict(old), as_read(difference(old, new)))) == ["b", "c", "a"]


EVENTS = [{"address": f"step-{n}", "result": "x" * 200} for n in range(500)]
TEXT = "what was said so far. " * 500


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"events": EVENTS}, {"events": [*EVENTS, EVENTS[0]]}),
        ({"events": EVENTS}, {"events": [*EVENTS[:-1], {**EVENTS[-1], "status": "done"}]}),
        ({"events": EVENTS}, {"events": [EVENTS[0], *EVENTS]}),
        ({"events": EVENTS}, {"events": EVENTS[1:]}),
        ({"events": EVENTS, "n": 1}, {"events": EVENTS, "n": 2}),
        ({"text": TEXT}, {"text": TEXT + "And this."}),
        ({"raw": TEXT.encode()}, {"raw": TEXT.encode() + b"."}),
        ({"a": {"b": {"c": EVENTS}}}, {"a": {"b": {"c": EVENTS, "d": 1}}}),
    ],
    ids=["grown", "changed", "before", "shorter", "beside", "text", "bytes", "deep"],
)
def test_a_small_change_is_a_small_delta(old: Any, new: Any) -> None:
    native = msgspec.msgpack.decode(codec.encode(new))
    delta = difference(old, native)
    assert len(encoded(delta)) < 300
    assert encoded(patch(copy.deepcopy(old), as_read(delta))) == encoded(new)


def test_an_operation_of_a_later_version_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        patch({}, [9, "?"])
