"""Where one session comes from, and which sessions go on from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog.words import Shown

BEGAN: Final = "session.began"
FORKED: Final = "session.forked"
ENDED: Final = "fork.ended"
CLEARED: Final = "session.cleared"

MARKER: Final = "cleared"
"""A family without a view: a session's subject in it ends at its last clearing."""


class Began(msgspec.Struct, frozen=True):
    """`session.began`: this session is a fork of that one as of that position of the log."""

    session_id: str
    position: str


class Fork(msgspec.Struct, frozen=True):
    """`session.forked`, `fork.ended`: that session shares what was here; it no longer does."""

    session_id: str


class Ended(msgspec.Struct, frozen=True):
    """`session.cleared`: what the session held can be shared no more."""


@dataclass(slots=True)
class Lineage:
    """`origin`: what it began from, also after it was cleared. `forks`: those that share its past,
    oldest first, each with the sequence at which it began. `cleared_at`: the sequence of its last
    clearing, 0 for none; what stood before cannot be shared any more.
    """

    origin: Began | None = None
    forks: dict[str, int] = field(default_factory=dict)
    cleared_at: int = 0

    @property
    def shared(self) -> Began | None:
        """What the session goes on from, if it still holds that."""
        return None if self.cleared_at else self.origin


def apply(state: Lineage, record: Any, envelope: Recorded, /) -> Lineage:
    """Fold one envelope in."""
    if envelope.type == BEGAN:
        state.origin = record
    elif envelope.type == FORKED:
        state.forks[record.session_id] = envelope.seq
    elif envelope.type == ENDED:
        state.forks.pop(record.session_id, None)
    else:
        state.cleared_at = envelope.seq
    return state


kind: Final = Kind(
    "lineage",
    keys=("session_id",),
    records={BEGAN: Began, FORKED: Fork, ENDED: Fork, CLEARED: Ended},
    fold=Fold(Lineage, apply, state=Lineage),
    shown=Shown(
        {
            BEGAN: "forked from {session_id}",
            FORKED: "fork {session_id} began",
            ENDED: "fork {session_id} ended",
            CLEARED: "session cleared",
        }
    ),
)
