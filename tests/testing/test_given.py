"""Kinds and projectors in plain tests: given, when, then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import pytest

import foldlog
from foldlog.testing import given


class Taken(msgspec.Struct, frozen=True):
    by: str


seats = foldlog.Kind("seats", keys=("flight",), records={"seat.taken": Taken}, fold=foldlog.every)


def take(by: str) -> Callable[[Sequence[Taken]], list[Taken] | None]:
    return lambda taken: [Taken(by)] if len(taken) < 2 else None


class Seat(NamedTuple):
    flight: str
    by: str


@foldlog.table("taken", kinds=["seats"])
def taken(item: foldlog.LogItem) -> Seat:
    return Seat(item.keys[0], item.record.by)


def test_a_decision_appends_what_it_is_to() -> None:
    given(seats("SK1"), Taken("ann")).when(take("bob")).then(Taken("bob"))
    given(seats("SK1"), Taken("ann"), Taken("bob")).when(take("cleo")).then()
    given(seats("SK1")).when(take("ann")).then(Taken("ann"))


def test_what_differs_is_told() -> None:
    with pytest.raises(AssertionError, match="Taken"):
        given(seats("SK1")).when(take("ann")).then(Taken("bob"))
    with pytest.raises(AssertionError):
        given(seats("SK1")).when(take("ann")).then()


async def test_rows_of_a_projector_also_beside_a_loop_that_runs() -> None:
    found = given(seats("SK1"), Taken("ann"), Taken("bob")).rows(taken)
    assert found == [("SK1", "ann"), ("SK1", "bob")]


def test_a_kind_of_foldlog_s_own() -> None:
    key = foldlog.kinds.memory("acme:ann:trip")
    assert given(key).rows(foldlog.table("seen", kinds=["memory"])(lambda_row)) == []


def lambda_row(item: foldlog.LogItem) -> Seat:
    return Seat(item.keys[0], "")
