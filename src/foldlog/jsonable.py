"""Whatever a store returns, as values that JSON has. One way: it is for reading, not for loading.

What JSON lacks becomes text:

- NaN and the infinities: "NaN", "Infinity", "-Infinity"
- bytes: a data URL, `data:application/octet-stream;base64,...`
- datetime, date and time: ISO 8601; a timedelta: its seconds, as a number
- Decimal, UUID and paths: their text; an enumeration's member: its value
- tuples and sets: lists, a set's sorted by the JSON of its members
- keys: the JSON of what is no text; where two become the same, the later ends in "~2", "~3" ...

Integers keep all their digits, which JSON allows; a reader that takes every number for a double
rounds those beyond 2**53. Above 4,000 digits they become hexadecimal text.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
from collections.abc import Mapping
from enum import Enum
from itertools import chain, count
from typing import Any, Final

from foldlog.differences import fields_of

_INT_BITS = 13_000  # some 3,900 digits: Python prints integers up to 4,300 by default


def jsonable(value: object) -> Any:
    """The value in terms of dict, list, str, int, float, bool and None; always new objects.

    Records (dataclasses, named tuples, structs, pydantic models) become dicts of their fields.
    """
    match value:
        case Enum():
            return jsonable(value.value)
        case None | bool() | str():
            return value
        case int():
            return value if value.bit_length() <= _INT_BITS else hex(value)
        case float():
            return value if math.isfinite(value) else json.dumps(value)
        case bytes():
            text = base64.b64encode(value).decode("ascii")
            return f"data:application/octet-stream;base64,{text}"
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta():
            return value.total_seconds()
        case Mapping():
            return _mapping(value)
        case set() | frozenset():
            return sorted(map(jsonable, value), key=compact)
    fields = fields_of(value)
    if fields is not None:
        return {name: jsonable(field) for name, field in fields.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    return str(value)


def compact(value: object) -> str:
    """The value as JSON on one line."""
    return json.dumps(jsonable(value), ensure_ascii=False, separators=(",", ":"))


def _mapping(mapping: Mapping[Any, object]) -> dict[str, Any]:
    items: dict[str, Any] = {}
    for key, value in mapping.items():
        plain = jsonable(key)
        name = plain if isinstance(plain, str) else json.dumps(plain)
        candidates = chain([name], (f"{name}~{number}" for number in count(2)))
        items[next(each for each in candidates if each not in items)] = jsonable(value)
    return items


# Only what stands outside of texts counts: a text may hold any number of commas.
_TEXTS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def count_values(text: bytes | bytearray) -> int:
    """Return how many values JSON text has at most, without decoding it."""
    left = _TEXTS.sub(b"", text)
    return 1 + left.count(b",") + left.count(b"[") + left.count(b"{")
