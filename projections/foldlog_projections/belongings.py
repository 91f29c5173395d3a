"""Which views belong to one session, of those whose keys alone do not tell.

The session's tasks, updates and the like stand under its id and need no entry.
"""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog.words import Line, Shown


class Belonging(msgspec.Struct, frozen=True):
    """`belonging.added`: the view of that kind and those keys belongs to the session."""

    kind: str
    keys: tuple[str, ...]


def _add(state: dict[Belonging, bool], added: Belonging, _: Recorded) -> dict[Belonging, bool]:
    state[added] = True
    return state


def _views(state: dict[Belonging, bool]) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.kind, each.keys) for each in state]


kind: Final = Kind(
    "belongings",
    keys=("session_id",),
    owner="session",
    owns=_views,
    records={"belonging.added": Belonging},
    fold=Fold(dict, _add, state=dict[Belonging, bool]),
    shown=Shown(
        {"belonging.added": lambda added: Line(f"{' '.join(added.keys)} belongs to the session")},
        group="lists",
    ),
)
