"""An index of the agents of a runtime that have state, in the order of their first turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind, Listing
from foldlog.words import Shown

LISTED: Final = "agent.listed"
UNLISTED: Final = "agent.unlisted"


class Listed(msgspec.Struct, frozen=True):
    """`agent.listed`: it has had state."""

    scope: str


class Unlisted(msgspec.Struct, frozen=True):
    """`agent.unlisted`: its state was deleted."""

    scope: str


def _list(state: dict[str, bool], record: Listed | Unlisted, _: Recorded) -> dict[str, bool]:
    if isinstance(record, Listed):
        state[record.scope] = True
    else:
        state.pop(record.scope, None)
    return state


kind: Final = Kind(
    "agentlist",
    keys=("runtime",),
    records={LISTED: Listed, UNLISTED: Unlisted},
    fold=Fold(dict, _list, state=dict[str, bool], replaces="scope", forgets_ids=True),
    shown=Shown(
        {LISTED: "agent {scope} listed", UNLISTED: "agent {scope} no longer listed"}, group="lists"
    ),
)


def _off(keys: tuple[str, ...], listed: Mapping[str, bool]) -> list[Unlisted]:
    _, scope = keys
    return [Unlisted(scope)] if scope in listed else []


def _runtime(keys: tuple[str, ...], _: Any) -> tuple[str, ...]:
    return keys[:1]


listing: Final = Listing(kind, _off, _runtime)
