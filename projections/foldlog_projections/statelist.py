"""Which states there are, with what they are looked for by. One view a shard.

An index only: what a state is stands under its own subject.
"""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog_projections.kept import as_type

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


_listed: Final = msgspec.msgpack.Decoder(Listed)
_unlisted: Final = msgspec.msgpack.Decoder(Unlisted)
keep, restore = as_type(dict[str, Listed])


def initial() -> dict[str, Listed]:
    """No states."""
    return {}


def replaces(envelope: Recorded, /) -> str:
    """The state's place in the list."""
    return _unlisted.decode(envelope.payload).state_id


def apply(state: dict[str, Listed], envelope: Recorded, /) -> dict[str, Listed]:
    """List the state anew, or no longer."""
    if envelope.type == UNLISTED:
        state.pop(_unlisted.decode(envelope.payload).state_id, None)
    else:
        listed = _listed.decode(envelope.payload)
        state[listed.state_id] = listed
    return state


kind = Kind(
    "statelist",
    keys=("shard",),
    records={LISTED: Listed, UNLISTED: Unlisted},
    fold=Fold(initial, apply, keep, restore, replaces),
)
