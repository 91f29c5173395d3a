"""What users put into PenguiFlow's payloads becomes data that the log holds."""

from __future__ import annotations

import datetime as dt
from collections import OrderedDict
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from pydantic import BaseModel

from foldlog import codec
from foldlog.errors import PayloadError
from foldlog.integrations.penguiflow.plain import plain


class Colour(Enum):
    RED = (255, 0, 0)


class Mood(StrEnum):
    GOOD = "good"


class Point(NamedTuple):
    x: int
    y: int


class Model(BaseModel):
    at: dt.datetime
    tags: set[str]
    mood: Mood


class Bytes(BaseModel):
    data: bytes
    inner: Any = None


@dataclass(frozen=True)
class Data:
    name: str
    parts: Any = field(default_factory=list)


class Foreign:
    def __str__(self) -> str:
        return "as text"


NOON = dt.datetime(2026, 1, 2, 12, 0, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.5, None, True, "x", b"\xff"]},
        {"at": NOON, "on": NOON.date(), "after": dt.timedelta(seconds=3)},
        {"set": {1, 2}, "frozen": frozenset("ab"), "tuple": (1, (2, 3))},
        [Decimal("1.10"), UUID(int=7), 2**100, float("inf")],
        {1: "int key", (1, 2): "tuple key", None: "no key"},
    ],
)
def test_what_the_log_holds_stays_what_it_is(value: Any) -> None:
    made = plain(value)
    assert made == value
    assert codec.decode(codec.encode(made)) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            Model(at=NOON, tags={"a"}, mood=Mood.GOOD),
            {"at": "2026-01-02T12:00:00Z", "tags": ["a"], "mood": "good"},
        ),
        (
            Bytes(data=b"\xff", inner=Model(at=NOON, tags=set(), mood=Mood.GOOD)),
            {
                "data": b"\xff",
                "inner": {"at": "2026-01-02T12:00:00Z", "tags": [], "mood": "good"},
            },
        ),
        (Data("d", [Data("e")]), {"name": "d", "parts": [{"name": "e", "parts": []}]}),
        ({Point(1, 2)}, [(1, 2)]),
        ({Data("d", ())}, [{"name": "d", "parts": ()}]),
        (Colour.RED, (255, 0, 0)),
        (Mood.GOOD, "good"),
        (Point(1, 2), (1, 2)),
        (OrderedDict(a=1), {"a": 1}),
        (bytearray(b"ab"), b"ab"),
        (Path("a/b"), "a/b"),
        (Foreign(), "as text"),
        (ValueError("why"), "why"),
        ({Foreign(): 1}, {"as text": 1}),
        ({(1, (Foreign(), Mood.GOOD)): 1}, {(1, ("as text", "good")): 1}),
        ({Point(1, 2): 1}, {(1, 2): 1}),
        ({Colour.RED: 1}, {(255, 0, 0): 1}),
    ],
)
def test_what_it_cannot_hold_becomes_what_penguiflow_writes(value: Any, expected: Any) -> None:
    made = plain({"value": [value]})
    assert made == {"value": [expected]}
    assert codec.decode(codec.encode(made)) == made


def test_nothing_is_shared_with_what_was_given() -> None:
    value = {"list": [1], "dict": {"a": [2]}, "set": {3}}
    made = plain(value)
    value["list"].append(9)
    value["dict"]["a"].append(9)
    value["set"].add(9)
    assert made == {"list": [1], "dict": {"a": [2]}, "set": {3}}


def test_what_contains_itself_is_refused_where_it_does() -> None:
    endless: dict[str, Any] = {}
    endless["self"] = endless
    with pytest.raises(PayloadError, match="nested deeper"):
        codec.encode(plain(endless))


def test_keys_that_become_the_same_one_are_refused() -> None:
    with pytest.raises(PayloadError, match="same one"):
        plain({Foreign(): 1, "as text": 2})
