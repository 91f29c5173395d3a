"""The fields of records, whichever library made their class, and where two values differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from foldlog import codec


class _Absent:
    """Stands for what one side does not have."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


class Difference(NamedTuple):
    """One place where two values differ.

    Attributes:
        path: where, as in `state.items[2].price`.
        before: the value before; ABSENT where there was none.
        after: the value after; ABSENT where there is none.
    """

    path: str
    before: Any
    after: Any


def differences(before: Any, after: Any, path: str) -> Iterator[Difference]:
    """Yield where two values differ, by a path that begins with `path`.

    Values are the same if `foldlog.codec` holds them as the same bytes, but for the order of keys.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            place = f"{path}.{key}" if isinstance(key, str) else f"{path}[{key!r}]"
            yield from differences(before.get(key, ABSENT), after.get(key, ABSENT), place)
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            left = before[index] if index < len(before) else ABSENT
            right = after[index] if index < len(after) else ABSENT
            yield from differences(left, right, f"{path}[{index}]")
    elif before is ABSENT or after is ABSENT or codec.encode(before) != codec.encode(after):
        yield Difference(path, before, after)


def fields_of(value: object) -> dict[str, Any] | None:
    """Return the fields of a record by name, in order; None for what is no record.

    Records are dataclasses, pydantic models, msgspec structs, attrs objects and named tuples.
    """
    kind = type(value)
    names: Iterable[str] | None = None
    if dataclasses.is_dataclass(kind):
        names = (each.name for each in dataclasses.fields(kind))
    elif hasattr(kind, "__attrs_attrs__"):
        names = (each.name for each in kind.__attrs_attrs__)
    else:
        for attribute in ("model_fields", "__struct_fields__", "_fields"):
            names = getattr(kind, attribute, names)
    return None if names is None else {name: getattr(value, name) for name in names}
