"""Comparing what came back with what was saved, whatever classes a store's models have."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any


def plain(value: Any) -> Any:
    """Return `value` with every model as a dict of its fields and every enum member as its value.

    Models are dataclasses, pydantic models, msgspec structs and attrs classes. Sequences other
    than tuples become lists, mappings become dicts; everything else stays what it is.
    """
    match value:
        case Enum():
            return value.value
        case None | bool() | int() | float() | str() | bytes() | datetime():
            return value
        case tuple():
            return tuple(plain(item) for item in value)
        case list():
            return [plain(item) for item in value]
        case Mapping():
            return {key: plain(item) for key, item in value.items()}
    fields = _fields(value)
    return value if fields is None else {name: plain(getattr(value, name)) for name in fields}


def same(left: Any, right: Any) -> bool:
    """Whether two plain values are the same down to type, NaN, signed zero and UTC offset.

    The order of keys does not count: JSON objects have none.
    """
    if type(left) is not type(right):
        return False
    match left:
        case float():
            if math.isnan(left) or math.isnan(right):
                return math.isnan(left) and math.isnan(right)
            equal: bool = left == right
            return equal and math.copysign(1.0, left) == math.copysign(1.0, right)
        case datetime():
            wall, other = left.replace(tzinfo=None), right.replace(tzinfo=None)
            return bool(wall == other and left.utcoffset() == right.utcoffset())
        case dict():
            keys, others = ({(type(key), key) for key in each} for each in (left, right))
            return keys == others and all(same(left[key], right[key]) for key in left)
        case list() | tuple():
            return len(left) == len(right) and all(map(same, left, right))
        case _:
            return bool(left == right)


def _fields(value: Any) -> list[str] | None:
    if isinstance(value, type):
        return None
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    kind = type(value)
    if hasattr(kind, "model_fields"):
        return list(kind.model_fields)
    if hasattr(kind, "__struct_fields__"):
        return list(kind.__struct_fields__)
    if hasattr(kind, "__attrs_attrs__"):
        return [attribute.name for attribute in kind.__attrs_attrs__]
    return None
