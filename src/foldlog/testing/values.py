"""Ids and payload values at which stores have been known to break."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, Final

HOSTILE_IDS: Final[tuple[str, ...]] = (
    "plain",
    "PLAIN",
    ".",
    "..",
    "*",
    ">",
    "a.b",
    "a=2Eb",
    "a=2eb",
    "a%2Eb",
    "a_b",
    "a-b",
    "a b",
    " a b",
    "a b ",
    "a\tb",
    "a\r\nb",
    "a\nb",
    "a\0b",
    "\0",
    "=",
    "==",
    "=3D",
    "../../etc/passwd",
    "$JS.API.>",
    "_INBOX.x",
    "a:b",
    "a/b",
    "a\\b",
    "a,b",
    "'; DROP TABLE x; --",
    "None",
    "null",
    "0",
    "é",
    "e\u0301",
    "\u202e\u200b",
    "日本語",
    "\U0001f427" * 3,
    "x" * 5_000,
    "x" * 4_999 + "y",
    "é" * 2_500,
    "é" * 2_499 + "e",
    ".*> " * 1_250,
)
"""Distinct ids that a careless store confuses, cuts, or takes for a pattern or a path."""

HOSTILE_NAMES: Final[tuple[str, ...]] = (
    "../../etc/passwd",
    "/abs",
    "a\\b",
    "\0",
    "a\r\nb",
    "*.>",
    ".",
    " ",
    "é" * 2_500,
)
"""Names that a careless store takes for a path, a header or a pattern."""

JSON_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    0.0,
    1.0,
    0.1 + 0.2,
    5e-324,
    "",
    "text",
    "\r\n\u2028\ufeff\uffff",
    "\U0001f427",
    "2024-05-15T15:00:00+00:00",
    [],
    {},
    [[], [[]], {}, [{}]],
    {"": "", "a.b": 1, "a b": {"c": None}},
    {"z": 1, "a": 2, "m": 3},
    [True, 1, 1.0, "1", None],
)
"""Values that every JSON database holds exactly.

The sign of zero is not among them, nor are floats so large that they are written like integers:
PostgreSQL's `jsonb`, which the specification recommends, keeps neither.
"""

_IST: Final = timezone(timedelta(hours=5, minutes=30))
_LMT: Final = timezone(-timedelta(hours=3, minutes=6, seconds=28, microseconds=7))

EXACT_VALUES: Final[tuple[Any, ...]] = (
    *JSON_VALUES,
    -0.0,
    1.7976931348623157e308,
    2**31,
    2**63,
    -(2**63) - 1,
    2**64 - 1,
    2**64,
    10**400,
    -(10**400),
    float("inf"),
    float("-inf"),
    float("nan"),
    "\0",
    b"",
    b"\x00\xff\xd6\xff\xd7\xff\xc7\x0c\xff",
    b"text",
    datetime(2024, 5, 15, 15, 0, 0, 1),
    datetime(1, 1, 1),
    datetime.max,
    datetime(2024, 5, 15, 15, 0, tzinfo=UTC),
    datetime(2024, 5, 15, 15, 0, 0, 999_999, tzinfo=_IST),
    datetime(1900, 1, 1, tzinfo=_LMT),
    (),
    set(),
    (1, (2, [3, (4,)])),
    {1, 2, 3},
    frozenset({"a", "b"}),
    {"a b": {"\0": None}},
    [True, 1, 1.0, "1", b"1", None],
    [float("nan"), {"nan": float("nan"), "zero": [-0.0]}],
    {"when": [datetime(2024, 5, 15, tzinfo=_IST)], "raw": {"deep": (b"\x00", 2**100)}},
    date(2024, 5, 15),
)
"""What Python programs put into payloads although JSON lacks it."""


def nested(value: Any) -> dict[str, Any]:
    """A payload that holds `value` bare, in a list and in a dict."""
    return {"bare": value, "list": [value, [value]], "dict": {"k": {"k": value}}}
