"""What differs between two descriptions of the same kind of thing. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from foldlog.differences import ABSENT, differences as inside

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


def _fields(a: Any, b: Any) -> Iterator[tuple[str, list[Any]]]:
    """What differs inside, by a path of names and indexes; a part that is not there is None."""
    for found in inside(a, b, ""):
        sides = [None if each is ABSENT else each for each in (found.before, found.after)]
        yield found.path.removeprefix("."), sides
