"""Whatever a payload may hold has a JSON form."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from uuid import UUID

import pytest

import foldlog
from foldlog import codec
from foldlog.jsonable import compact, jsonable

PLUS_TWO = dt.timezone(dt.timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (2**64, 18446744073709551616),
        (-(10**1000), -(10**1000)),
        (0.1, 0.1),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        ("Grüße", "Grüße"),
        (b"\x00\xff", "data:application/octet-stream;base64,AP8="),
        (dt.datetime(2026, 3, 1, 12, tzinfo=PLUS_TWO), "2026-03-01T12:00:00+02:00"),
        (dt.date(2026, 3, 1), "2026-03-01"),
        (dt.time(12, 30), "12:30:00"),
        (dt.timedelta(minutes=1.5), 90.0),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ((1, [2]), [1, [2]]),
        ({3, 1, 2}, [1, 2, 3]),
        (foldlog.TaskStatus.FAILED, "FAILED"),
        ({None: 1, True: 2, 7: 3, "x": 4}, {"null": 1, "true": 2, "7": 3, "x": 4}),
    ],
)
def test_values(value: object, expected: object) -> None:
    """Each kind of value in its documented form, which JSON can hold."""
    assert jsonable(value) == expected
    assert json.loads(compact(value)) == expected


def test_an_integer_that_python_will_not_print() -> None:
    """Above the limit of the interpreter it is hexadecimal text."""
    huge = 10**5000
    assert int(jsonable(huge), 16) == huge
    assert codec.decode(codec.encode(huge)) == huge


def test_keys_that_become_the_same_are_all_kept() -> None:
    """No value is lost to another one's key."""
    assert jsonable({1: "number", "1": "text", "1~2": "own"}) == {
        "1": "number",
        "1~2": "text",
        "1~2~2": "own",
    }


def test_records_become_their_fields() -> None:
    """Dataclasses, models and named tuples, also inside one another."""
    event = foldlog.StoredEvent("t", 1.0, "k", None, None, {"raw": b""})
    update = foldlog.StateUpdate(
        session_id="s",
        task_id="t",
        update_id="u",
        update_type=foldlog.UpdateType.RESULT,
        content=(event,),
        created_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    )
    assert jsonable(update)["update_type"] == "RESULT"
    assert jsonable(update)["created_at"] == "2026-01-01T00:00:00+00:00"
    assert jsonable(update)["content"][0] == {
        "trace_id": "t",
        "ts": 1.0,
        "kind": "k",
        "node_name": None,
        "node_id": None,
        "payload": {"raw": "data:application/octet-stream;base64,"},
    }
    report = foldlog.RebuildReport(1, 2, {"events": 1}, (), 0.5)
    assert jsonable(report)["projections"] == {"events": 1}
