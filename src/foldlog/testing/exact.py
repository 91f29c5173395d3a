"""Comparing what came back with what was saved, whatever classes a store's models have."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Any

from foldlog.differences import fields_of


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
    fields = fields_of(value)
    return value if fields is None else {name: plain(field) for name, field in fields.items()}


def same(left: Any, right: Any, *, offsets: bool = False) -> bool:
    """Whether two plain values are the same down to type, NaN and signed zero.

    The order of keys does not count: JSON objects have none. Of a time with a UTC offset the
    instant counts; the offset too with `offsets`.
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
            kept = not offsets or left.utcoffset() == right.utcoffset()
            return kept and bool(left == right)
        case dict():
            keys, others = ({(type(key), key) for key in each} for each in (left, right))
            return keys == others and all(
                same(left[key], right[key], offsets=offsets) for key in left
            )
        case list() | tuple():
            return len(left) == len(right) and all(
                same(item, other, offsets=offsets) for item, other in zip(left, right, strict=True)
            )
        case _:
            return bool(left == right)


def scribble(value: Any) -> None:
    """Change whatever can be changed in `value` and in all that it holds.

    It is what callers do who take it for their own. What is frozen stays as it is: that may be
    shared with anybody.
    """
    untyped: Any = value  # a mapping, or a tuple, may not be mutable: then the change is refused
    match value:
        case Mapping():
            for item in value.values():
                scribble(item)
            _unless_frozen(partial(operator.setitem, untyped, "scribbled", True))
        case list() | tuple():
            for item in value:
                scribble(item)
            _unless_frozen(lambda: untyped.append("scribbled"))
        case Enum() | str() | bytes():
            pass
        case _:
            for name, held in (fields_of(value) or {}).items():
                scribble(held)
                if type(held) is str:
                    _unless_frozen(partial(setattr, value, name, f"{held}, scribbled"))


def _unless_frozen(change: Callable[[], None]) -> None:
    try:
        change()
    except (AttributeError, TypeError, ValueError):
        # How tuples, mapping proxies, frozen dataclasses and pydantic's frozen models refuse.
        return
