"""What PenguiFlow lets its users put into payloads, as data that the log can hold. No I/O.

PenguiFlow writes models as `model_dump(mode="json")` and what JSON lacks as its text. This does
the same to whatever `foldlog.codec` cannot hold by itself; what it can hold, such as a datetime,
a set or bytes, stays what it is.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from foldlog.codec import MAX_DEPTH
from foldlog.errors import FoldlogError, PayloadError

_HELD: Final = frozenset(
    {
        *(type(None), bool, int, float, str, bytes),
        *(dt.datetime, dt.date, dt.time, dt.timedelta, Decimal, UUID),
    }
)
_KEYS: Final = (str, int, float, bytes, type(None))


def plain(value: Any, depth: int = MAX_DEPTH + 1) -> Any:
    """Return `value` as plain data that shares no container with it.

    What nests deeper than the codec follows, a value that contains itself for instance, is left
    there as it is: the codec refuses it, and names the place.
    """
    if type(value) in _HELD or depth == 0:
        return value
    if isinstance(value, Mapping):
        return _keyed(value, depth - 1)
    if isinstance(value, list):
        return [plain(item, depth - 1) for item in value]
    if isinstance(value, tuple):
        return tuple(plain(item, depth - 1) for item in value)
    if isinstance(value, set | frozenset):
        # A member may become a dict, which no set can hold.
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


def _keyed(value: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
    made = {_key(key): plain(item, depth) for key, item in value.items()}
    if len(made) != len(value):
        raise PayloadError("payload", "two keys become the same one")
    return made


def _key(key: Any) -> Any:
    if isinstance(key, Enum):
        return _key(key.value)
    if isinstance(key, tuple):
        return tuple(_key(part) for part in key)
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


@contextmanager
def callers_code(where: str) -> Iterator[None]:
    """Have whatever a caller's objects raise in the block be a PayloadError at `where`.

    Reading them runs code of the caller's: properties, serializers, `__str__`.
    """
    try:
        yield
    except FoldlogError:
        raise
    except Exception as fault:
        raise PayloadError(where, _told(fault)) from fault


def _told(fault: Exception) -> str:
    kind = type(fault).__name__
    try:
        return f"{kind}: {fault}"
    except Exception:  # noqa: BLE001 - its `__str__` is the caller's code, too
        return kind
