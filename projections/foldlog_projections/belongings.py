"""Which views belong to one session, of those whose keys alone do not tell.

The session's tasks, updates and the like stand under its id and need no entry.

A list that is cleared remembers what it named. A process that has not heard of the clearing saves
in such a view without entering it anew, and the next clearing must find it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog.words import Line, Shown

_REMEMBERED: Final = 1_000
"""Views that a cleared list remembers at most: those that were entered last."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[tuple[str, tuple[str, ...]]]).decode


class Belonging(msgspec.Struct, frozen=True):
    """`belonging.added`: the view of that kind and those keys belongs to the session."""

    kind: str
    keys: tuple[str, ...]


@dataclass(slots=True)
class Listed:
    """`views`: those that were entered since the last clearing. `cleared`: those of before."""

    views: dict[Belonging, bool] = field(default_factory=dict)
    cleared: dict[Belonging, bool] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.views)


def _add(state: Listed, added: Belonging, _: Recorded) -> Listed:
    state.views[added] = True
    return state


def _views(state: Listed) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.kind, each.keys) for each in {**state.cleared, **state.views}]


def _remains(state: Listed) -> bytes:
    newest_first = dict.fromkeys([*reversed(state.views), *reversed(state.cleared)])
    kept = list(islice(newest_first, _REMEMBERED))
    return _encode([(each.kind, each.keys) for each in reversed(kept)])


def _after_clearing(remains: bytes) -> Listed:
    return Listed(cleared={Belonging(*pair): True for pair in _decode(remains)})


kind: Final = Kind(
    "belongings",
    keys=("session_id",),
    owner="session",
    owns=_views,
    records={"belonging.added": Belonging},
    version=2,
    fold=Fold(Listed, _add, state=Listed, remains=(_remains, _after_clearing)),
    shown=Shown(
        {"belonging.added": lambda added: Line(f"{' '.join(added.keys)} belongs to the session")},
        group="lists",
    ),
)
