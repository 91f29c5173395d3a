"""Equality as a log owes it: of types, NaN, signed zeros and UTC offsets too."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any


def same(left: Any, right: Any) -> bool:
    """Whether two payload values are the same down to type, NaN, signed zero and UTC offset."""
    if type(left) is not type(right):
        return False
    match left:
        case float():
            if math.isnan(left) or math.isnan(right):
                return math.isnan(left) and math.isnan(right)
            return left == right and math.copysign(1.0, left) == math.copysign(1.0, right)
        case datetime():
            return (
                left.replace(tzinfo=None) == right.replace(tzinfo=None)
                and left.utcoffset() == right.utcoffset()
            )
        case dict():
            return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
        case list() | tuple():
            return len(left) == len(right) and all(map(same, left, right))
        case _:
            return bool(left == right)
