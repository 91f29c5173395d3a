"""An index of the agents of a runtime that have state, in the order of their first turns."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.kind import Kind, Listing
from foldlog.words import Shown
from foldlog_projections.folds import listed, off_list

LISTED: Final = "agent.listed"
UNLISTED: Final = "agent.unlisted"


class Listed(msgspec.Struct, frozen=True):
    """`agent.listed`: it has had state."""

    scope: str


class Unlisted(msgspec.Struct, frozen=True):
    """`agent.unlisted`: its state was deleted."""

    scope: str


kind: Final = Kind(
    "agentlist",
    keys=("runtime",),
    records={LISTED: Listed, UNLISTED: Unlisted},
    version=2,
    fold=listed("scope", Listed),
    shown=Shown(
        {LISTED: "agent {scope} listed", UNLISTED: "agent {scope} no longer listed"}, group="lists"
    ),
)


def _runtime(keys: tuple[str, ...], _: Any) -> tuple[str, ...]:
    return keys[:1]


listing: Final = Listing(kind, off_list(Unlisted), _runtime)
