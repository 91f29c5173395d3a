"""An index of the states of one shard, with the fields that they are searched by."""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.kind import Kind, Listing
from foldlog.words import Shown
from foldlog_projections.folds import listed, off_list

LISTED: Final = "state.listed"
UNLISTED: Final = "state.unlisted"


class Listed(msgspec.Struct, frozen=True, omit_defaults=True):
    """`state.listed`: it exists, and can be found by these."""

    state_id: str
    status: str
    tags: tuple[str, ...] = ()
    pipeline_name: str = ""
    parent_state_id: str | None = None


class Unlisted(msgspec.Struct, frozen=True):
    """`state.unlisted`: it was deleted."""

    state_id: str


kind: Final = Kind(
    "statelist",
    keys=("shard",),
    records={LISTED: Listed, UNLISTED: Unlisted},
    fold=listed("state_id", Listed),
    shown=Shown(
        {LISTED: "execution {state_id} listed", UNLISTED: "execution {state_id} no longer listed"},
        group="lists",
    ),
)


listing: Final = Listing(kind, off_list(Unlisted))
