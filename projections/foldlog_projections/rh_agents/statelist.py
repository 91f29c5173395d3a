"""An index of the states of one shard, with the fields that they are searched by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind, Listing
from foldlog.words import Shown

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


def _list(state: dict[str, Listed], record: Listed | Unlisted, _: Recorded) -> dict[str, Listed]:
    if isinstance(record, Listed):
        state[record.state_id] = record
    else:
        state.pop(record.state_id, None)
    return state


kind: Final = Kind(
    "statelist",
    keys=("shard",),
    records={LISTED: Listed, UNLISTED: Unlisted},
    fold=Fold(dict, _list, state=dict[str, Listed], replaces="state_id", forgets_ids=True),
    shown=Shown(
        {LISTED: "execution {state_id} listed", UNLISTED: "execution {state_id} no longer listed"},
        group="lists",
    ),
)


def _off(keys: tuple[str, ...], listed: Mapping[str, Listed]) -> list[Unlisted]:
    [state_id] = keys
    return [Unlisted(state_id)] if state_id in listed else []


listing: Final = Listing(kind, _off)
