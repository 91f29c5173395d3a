"""Values of users' own types as plain data, and back; and plain data as JSON, and back."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import json
import math
from collections.abc import Awaitable
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field, SecretStr

import foldlog
from foldlog import codec
from foldlog.values import (
    TypeCodec,
    as_plain,
    from_json,
    returned_type,
    to_json,
    type_codec,
)
from tests.support.exact import same


class Seat(NamedTuple):
    row: int
    letter: str


class Cabin(Enum):
    FIRST = ("F", 1)
    SECOND = ("Y", 2)


@dataclasses.dataclass(frozen=True)
class Leg:
    to: str
    departs: dt.datetime = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)


class Flight(BaseModel):
    legs: tuple[Leg, ...] = ()
    tags: set[str] = set()
    fare: Decimal = Decimal("1.10")
    delay: float = 0.0
    ticket: Path = Path("/tickets/7")
    cabin: Cabin = Cabin.SECOND
    number: int = Field(default=7, alias="flight-number")


class Charter(Flight):
    crew: dict[str, list[Leg]] = {}


class Vault(BaseModel):
    key: SecretStr


class Opaque:
    """A class that pydantic does not know."""


def repr_of_type(given: object) -> str:
    """The id of a case: what it holds may be a set, whose text differs between processes."""
    return str(given) if isinstance(given, type) else type(given).__name__


CHARTER = Charter(legs=(Leg("Oslo"),), tags={"a", "b"}, crew={"ann": [Leg("Rome")]})


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Flight, Flight(legs=(Leg("Oslo"),), delay=2.5)),
        (Charter, CHARTER),
        (Leg, Leg("Oslo")),
        (list[Flight | None], [Flight(), None]),
        (dict[str, tuple[Leg, Flight]], {"first": (Leg("Oslo"), Flight())}),
        (set[Leg], {Leg("Oslo"), Leg("Rome")}),
        (Cabin, Cabin.FIRST),
        (Seat, Seat(7, "A")),
        (Path, Path("/tickets")),
        (dt.datetime, dt.datetime(2024, 5, 1, tzinfo=dt.timezone(dt.timedelta(hours=2)))),
    ],
    ids=repr_of_type,
)
def test_a_value_of_a_declared_type_comes_back_as_it_was(declared: Any, value: Any) -> None:
    values = TypeCodec[Any](declared)
    held = codec.decode(codec.encode(values.dump(value, "result")))
    loaded = values.load(held)
    assert type(loaded) is type(value)
    assert loaded == value


def test_a_number_that_is_none_comes_back() -> None:
    values = TypeCodec[Flight](Flight)
    loaded = values.load(values.dump(Flight(delay=float("nan")), "result"))
    assert math.isnan(loaded.delay)


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Flight, CHARTER),  # its crew would be lost
        (list[Flight], [CHARTER]),
        (Flight, {"delay": 1.0}),
        (Leg, Flight()),
        (Vault, Vault(key=SecretStr("x"))),
        (int, 1.5),
    ],
    ids=repr_of_type,
)
def test_what_would_come_back_otherwise_is_refused(declared: Any, value: Any) -> None:
    with pytest.raises(foldlog.PayloadError, match="result"):
        TypeCodec[Any](declared).dump(value, "result")


def test_what_pydantic_does_not_know_is_no_type_of_values() -> None:
    with pytest.raises(foldlog.ConfigurationError, match="Opaque"):
        TypeCodec[Any](Opaque)
    for value in (Opaque(), [Opaque()], {"deep": {"er": Opaque()}}):
        with pytest.raises(foldlog.PayloadError, match="Opaque"):
            as_plain(value, "result")


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: list[Any] = [Flight()]
    endless.append(endless)
    with pytest.raises(foldlog.PayloadError):
        as_plain(endless, "result")


def test_data_of_another_type_is_not_read() -> None:
    with pytest.raises(ValueError, match="departs"):
        TypeCodec[Any](Leg).load({"to": "Oslo", "departs": "yesterday"})


def test_types_that_the_log_holds_by_itself_need_no_codec() -> None:
    plain = (None, Any, dict, list[int], dict[str, tuple[int, ...]], str | None, dt.datetime)
    assert [type_codec(each) for each in plain] == [None] * len(plain)
    assert type_codec(list[Leg] | None) is type_codec(list[Leg] | None) is not None


async def find(city: str) -> list[Flight]:
    return []


class Finder:
    async def __call__(self) -> Leg:
        return Leg("Oslo")

    def soon(self) -> Awaitable[Flight]:
        return self.one()

    async def one(self) -> Flight:
        return Flight()


def test_a_function_declares_the_type_of_what_it_returns() -> None:
    async def unknown() -> Missing:  # type: ignore[name-defined]  # noqa: F821
        return None

    assert returned_type(find) == list[Flight]
    assert returned_type(functools.partial(find, "Oslo")) == list[Flight]
    assert returned_type(Finder()) is Leg
    assert returned_type(Finder().soon) is Flight
    assert [returned_type(each) for each in (lambda: 1, unknown, print)] == [Any] * 3


# --- plain data as JSON ---------------------------------------------------------------------------

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=4)
    | st.datetimes()
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
)
HASHABLE = st.integers() | st.text(max_size=3) | st.dates() | st.tuples(st.integers(), st.text())
DATA = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.sets(HASHABLE, max_size=3)
        | st.frozensets(HASHABLE, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "$set", "$dict", "$"]), inner, max_size=3)
        | st.dictionaries(HASHABLE, inner, max_size=2)
    ),
    max_leaves=10,
)


@given(DATA)
def test_plain_data_comes_back_from_json(data: Any) -> None:
    text = json.dumps(to_json(data), allow_nan=False)
    assert same(from_json(json.loads(text)), data)


def test_json_says_what_json_lacks() -> None:
    at = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)
    assert to_json({"at": at, "seat": (7, {"A"}), "id": UUID(int=0), "raw": b"x"}) == {
        "at": {"$datetime": "2024-01-02T00:00:00+00:00"},
        "seat": {"$tuple": [7, {"$set": ["A"]}]},
        "id": {"$uuid": "00000000-0000-0000-0000-000000000000"},
        "raw": {"$bytes": "eA=="},
    }


@pytest.mark.parametrize(
    "data",
    [{"$import": "os"}, {"$set": 1}, {"$set": [[]]}, {"$datetime": "soon"}, {"$decimal": "x"}],
    ids=str,
)
def test_json_that_nothing_here_wrote_is_refused(data: Any) -> None:
    with pytest.raises(foldlog.PayloadError):
        from_json([data])


def test_what_plain_data_does_not_hold_is_not_written_as_json() -> None:
    with pytest.raises(foldlog.PayloadError, match="Opaque"):
        to_json({"bad": [Opaque()]})
