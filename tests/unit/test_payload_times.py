"""Times as text: what is written is what `isoformat` says, whatever kind of datetime it is."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, strategies as st

from foldlog.errors import PayloadError
from foldlog.store.payloads import time_text


class Frozen(dt.datetime):
    """As test tools and data frames have them."""


@given(st.datetimes(timezones=st.just(dt.UTC) | st.timezones() | st.none()))
def test_the_text_of_a_time(value: dt.datetime) -> None:
    assert time_text(value, "at") == value.isoformat()


def test_a_subclass_is_a_time() -> None:
    value = Frozen(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    assert time_text(value, "at") == "2026-01-02T03:04:05+00:00"


def test_anything_else_is_none() -> None:
    with pytest.raises(PayloadError, match="at"):
        time_text("2026-01-01", "at")  # type: ignore[arg-type]
