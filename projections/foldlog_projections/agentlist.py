"""Which agents of a runtime have state, in the order in which they came to have it.

An index only: the state stands under the agent's own subject.
"""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind

LISTED: Final = "agent.listed"


class Listed(msgspec.Struct, frozen=True):
    """`agent.listed`: it has had state."""

    scope: str


def _list(state: dict[str, bool], agent: Listed, _: Recorded) -> dict[str, bool]:
    state[agent.scope] = True
    return state


kind = Kind(
    "agentlist",
    keys=("runtime",),
    records={LISTED: Listed},
    fold=Fold(dict, _list, state=dict[str, bool]),
)
