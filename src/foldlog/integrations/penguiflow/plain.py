"""What PenguiFlow lets its users put into payloads, as data that the log can hold. No I/O.

PenguiFlow writes models as `model_dump(mode="json")` and what JSON lacks as its text. This does
the same to whatever `foldlog.codec` cannot hold by itself; what it can hold, such as a datetime,
a set or bytes, stays what it is.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from foldlog.codec import MAX_DEPTH

_HELD: Final = frozenset(
    {
        *(type(None), bool, int, float, str, bytes),
        *(dt.datetime, dt.date, dt.time, dt.timedelta, Decimal, UUID),
    }
)
_KEYS: Final = (str, int, float, bytes, tuple, Enum, type(None))


def plain(value: Any, depth: int = MAX_DEPTH + 1) -> Any:
    """Return `value` as plain data that shares no container with it.

    What nests deeper than the codec follows, a value that contains itself for instance, is left
    there as it is: the codec refuses it, and names the place.
    """
    if type(value) in _HELD or depth == 0:
        return value
    if isinstance(value, Mapping):
        return {_key(key): plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item, depth - 1) for item in value]
    if isinstance(value, tuple):
        return tuple(plain(item, depth - 1) for item in value)
    if isinstance(value, set | frozenset):
        # A member may become a dict, of which there are no sets.
        held = all(type(item) in _HELD for item in value)
        return value.copy() if held else [plain(item, depth - 1) for item in value]
    if isinstance(value, Enum):
        return plain(value.value, depth - 1)
    if isinstance(value, BaseModel):
        return _model(value, depth)
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name), depth - 1) for each in fields(value)}
    if isinstance(value, str | int | float | bytes | bytearray | memoryview):
        return bytes(value) if isinstance(value, bytearray | memoryview) else value
    return _foreign(value)


def _key(key: Any) -> Any:
    return key if isinstance(key, _KEYS) else str(key)


def _model(value: BaseModel, depth: int) -> Any:
    try:
        return value.model_dump(mode="json")
    except ValueError:
        # JSON has no place for some field: bytes that are no text, a class of the user's own.
        return plain(dict(value), depth - 1)


def _foreign(value: Any) -> Any:
    try:
        return to_jsonable_python(value, fallback=str)
    except ValueError:
        return str(value)
