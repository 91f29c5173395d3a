"""What differs between two descriptions of the same kind of thing. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Described = Mapping[str, Mapping[str, Any]]
"""What something holds, by kind and id, as values that JSON has."""


class Change(NamedTuple):
    """One difference. `how` is "added", "removed" or "changed".

    `values`: of what was added or removed, all of it; of what changed, for each field what it was
    and what it is.
    """

    kind: str
    id: str
    how: str
    values: Any


def differences(a: Described, b: Described) -> Iterator[Change]:
    """Yield what makes `b` of `a`: by kind, in the order of `b`, what is gone last."""
    for kind in dict.fromkeys([*b, *a]):
        before, after = a.get(kind, {}), b.get(kind, {})
        for id, value in after.items():
            if id not in before:
                yield Change(kind, id, "added", value)
            elif before[id] != value:
                yield Change(kind, id, "changed", dict(_fields(before[id], value)))
        for id, value in before.items():
            if id not in after:
                yield Change(kind, id, "removed", value)


def _fields(a: Any, b: Any, path: str = "") -> Iterator[tuple[str, list[Any]]]:
    """What differs inside, by a path of names and indexes; a part that is not there is None."""
    if a == b and type(a) is type(b):
        return
    if isinstance(a, dict) and isinstance(b, dict):
        for name in dict.fromkeys([*a, *b]):
            yield from _fields(a.get(name), b.get(name), f"{path}.{name}" if path else name)
    elif isinstance(a, list) and isinstance(b, list):
        for index in range(max(len(a), len(b))):
            old, new = (side[index] if index < len(side) else None for side in (a, b))
            yield from _fields(old, new, f"{path}[{index}]")
    else:
        yield path, [a, b]
