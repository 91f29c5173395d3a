"""Which agents of a runtime have state, in the order in which they came to have it.

An index only: what the state is stands under the agent's own subject.
"""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog_projections.kept import as_type

LISTED: Final = "agent.listed"


class Listed(msgspec.Struct, frozen=True):
    """`agent.listed`: it has had state."""

    scope: str


_decoder: Final = msgspec.msgpack.Decoder(Listed)
keep, restore = as_type(dict[str, bool])


def initial() -> dict[str, bool]:
    """No agents."""
    return {}


def apply(state: dict[str, bool], envelope: Recorded, /) -> dict[str, bool]:
    """List the agent; a second time changes nothing."""
    state[_decoder.decode(envelope.payload).scope] = True
    return state


kind = Kind(
    "agentlist",
    keys=("runtime",),
    records={LISTED: Listed},
    fold=Fold(initial, apply, keep, restore),
)
