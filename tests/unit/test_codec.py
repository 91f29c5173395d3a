"""Payloads come back exactly, or are refused by name."""

from __future__ import annotations

import datetime as dt
import math
import socket
from collections.abc import Iterator
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from foldlog import codec
from foldlog.errors import PayloadError
from tests.support.exact import same


class Colour(StrEnum):
    RED = "red"


class Plain(Enum):
    ONE = object()


class Hidden(Enum):
    RED = "red"
    ONE = 1


class Text(str):
    def __str__(self) -> str:
        return "another"


class Count(int):
    def __int__(self) -> int:
        return 99

    def __index__(self) -> int:
        return 99


class Ratio(float):
    def __float__(self) -> float:
        return 99.0


class Data(bytes):
    def __bytes__(self) -> bytes:
        return b"another"


class Items(list[int]):
    def __iter__(self) -> Iterator[int]:
        return iter([99])


class FrozenDict(dict[str, int]):
    def __hash__(self) -> int:  # type: ignore[override]
        return 1


class HashableList(list[int]):
    def __hash__(self) -> int:  # type: ignore[override]
        return 1


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**62, max_value=2**200)
    | st.floats()
    | st.text()
    | st.binary()
    | st.datetimes(timezones=st.none() | st.sampled_from([dt.UTC, ZoneInfo("Asia/Kathmandu")]))
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
)
_KEYS = st.text() | st.integers(min_value=-(2**63), max_value=2**64 - 1) | st.binary()
KEYS = _KEYS | st.tuples(_KEYS, st.tuples(_KEYS))
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner)
        | st.frozensets(st.integers() | st.text())
        | st.sets(st.text())
    ),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_encoded_is_decoded_exactly(value: Any) -> None:
    assert same(codec.decode(codec.encode(value)), value)


@given(st.dictionaries(st.text(), SCALARS, min_size=2))
def test_fingerprint_ignores_the_order_of_keys(value: dict[str, Any]) -> None:
    reversed_ = dict(reversed(value.items()))
    one, other = (codec.to_native(held, "payload") for held in (value, reversed_))
    assert codec.native_digest(one) == codec.native_digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1, True), ("1", 1), (b"a", "a"), ([1], (1,)), (0.0, -0.0), (None, {}), ([], {})],
)
def test_fingerprint_tells_types_apart(one: Any, other: Any) -> None:
    natives = [codec.to_native([value], "payload") for value in (one, other)]
    assert codec.native_digest(natives[0]) != codec.native_digest(natives[1])


def test_mixed_keys_have_a_fingerprint_whatever_their_order() -> None:
    one: dict[Any, Any] = {1: "a", "1": {"x": 1, 2: 2}, None: 3}
    other = {None: 3, "1": {2: 2, "x": 1}, 1: "a"}
    assert codec.native_digest(one) == codec.native_digest(other)


@given(
    st.dictionaries(st.text(), st.none() | st.booleans() | st.floats() | st.text() | st.binary())
)
def test_plain_data_and_its_native_form_have_one_digest(value: dict[str, Any]) -> None:
    assert codec.native_digest(value) == codec.native_digest(codec.to_native(value, "payload"))


def test_offset_of_a_datetime_is_kept() -> None:
    value = dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.timezone(dt.timedelta(hours=5, minutes=45)))
    decoded = codec.decode(codec.encode({"at": value}))["at"]
    assert decoded.isoformat() == value.isoformat()


def test_nan_is_kept() -> None:
    assert math.isnan(codec.decode(codec.encode({"x": [math.nan]}))["x"][0])


def test_decoded_values_are_new_objects() -> None:
    raw = codec.encode({"a": []})
    codec.decode(raw)["a"].append(1)
    assert codec.decode(raw) == {"a": []}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, {"b c": object()}]}, "payload.a[1]['b c']"),
        ({"s": "\ud800"}, "payload.s"),
        ({"\ud800": 1}, "payload key"),
        ({"t": (1, Plain.ONE)}, "payload.t[1]"),
        ({"k": {frozenset(): object()}}, "payload.k"),
        (object(), "payload"),
    ],
)
def test_what_cannot_be_held_is_named(value: Any, path: str) -> None:
    with pytest.raises(PayloadError) as refused:
        codec.encode(value)
    assert refused.value.path == path


@pytest.mark.parametrize(
    "value",
    [
        {Colour.RED: 1, Text("red"): 2, Hidden.RED: 3},
        {Hidden.RED: 1, "red": 2},
        {"deep": [{Hidden.ONE: 1, 1: 2}]},
        {(Hidden.RED,): 1, ("red",): 2},
    ],
)
def test_keys_that_would_be_held_as_one_are_refused(value: Any) -> None:
    with pytest.raises(PayloadError, match="two keys are held as the same one"):
        codec.encode(value)


@pytest.mark.parametrize(
    "value", [{FrozenDict(a=1)}, frozenset([FrozenDict(a=1)]), {HashableList()}]
)
def test_what_only_its_own_class_can_hash_is_refused(value: Any) -> None:
    with pytest.raises(PayloadError, match="cannot be read back"):
        codec.encode({"x": value})


def test_a_socket_is_refused() -> None:
    with (
        socket.socket() as open_socket,
        pytest.raises(PayloadError, match=r"payload\.conn: socket"),
    ):
        codec.encode({"conn": open_socket})


def test_cycles_and_deep_nesting_are_refused() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    deep: Any = None
    for _ in range(codec.MAX_DEPTH + 2):
        deep = {"d": deep}
    lists: Any = None
    for _ in range(codec.MAX_DEPTH + 2):
        lists = [lists]
    for value in (cycle, deep, lists, [[], lists[0], []]):
        with pytest.raises(PayloadError, match="nested deeper than 100"):
            codec.encode(value)


def test_the_deepest_nesting_that_is_allowed() -> None:
    deep: Any = None
    for _ in range(codec.MAX_DEPTH):
        deep = [deep]
    for value in (deep, [*deep, *([] for _ in range(2 * codec.MAX_DEPTH)), "x" * 500]):
        assert codec.decode(codec.encode(value)) == value


def test_subclasses_are_held_as_what_they_extend() -> None:
    decoded = codec.decode(codec.encode({"e": Colour.RED, "t": Text("x"), "b": bytearray(b"y")}))
    assert same(decoded, {"e": "red", "t": "x", "b": b"y"})


def test_subclasses_are_held_as_they_are_not_as_they_show_themselves() -> None:
    value = [Text("x"), Count(1), Ratio(0.5), Data(b"y"), Items([2]), {Text("key"): 3}]
    # Beside a tuple the whole value is walked, part by part.
    for written in (codec.encode(value), codec.encode([*value, ()])):
        assert same(codec.decode(written)[:6], ["x", 1, 0.5, b"y", [2], {"key": 3}])


def test_unknown_extensions_are_refused_and_nothing_is_called() -> None:
    import msgspec

    raw = msgspec.msgpack.encode(msgspec.msgpack.Ext(99, b"os.system"))
    with pytest.raises(msgspec.ValidationError, match="99"):
        codec.decode(raw)


def test_scalars_of_every_kind() -> None:
    value = {
        "uuid": UUID(int=5),
        "decimal": Decimal("1.50"),
        "big": [2**64, -(2**63) - 1, 10**400],
        "time": dt.time(1, 2, 3, tzinfo=dt.UTC),
        "inf": [math.inf, -math.inf, -0.0],
    }
    assert same(codec.decode(codec.encode(value)), value)
