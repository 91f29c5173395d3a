"""Where one session comes from, and which sessions go on from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog_projections.kept import as_type

BEGAN: Final = "session.began"
FORKED: Final = "session.forked"
ENDED: Final = "fork.ended"
CLEARED: Final = "session.cleared"


class Began(msgspec.Struct, frozen=True):
    """`session.began`: this session is a fork of that one as of that position of the log."""

    session_id: str
    position: str


class Fork(msgspec.Struct, frozen=True):
    """`session.forked`, `fork.ended`: that session shares what was here; it no longer does."""

    session_id: str


@dataclass(slots=True)
class Lineage:
    """`origin`: what it began from; also after it was cleared, for whoever has to tell its parent.

    `forks` are those that share its past, in the order in which they began, each with the sequence
    at which it did. `cleared_at`: the sequence at which it was cleared last, 0 for never: what
    stood before it cannot be shared any more.
    """

    origin: Began | None = None
    forks: dict[str, int] = field(default_factory=dict)
    cleared_at: int = 0

    @property
    def shared(self) -> Began | None:
        """What the session goes on from, if it still holds that."""
        return None if self.cleared_at else self.origin


_began: Final = msgspec.msgpack.Decoder(Began)
_fork: Final = msgspec.msgpack.Decoder(Fork)
keep, restore = as_type(Lineage)


def initial() -> Lineage:
    """A session of its own, that nobody shares."""
    return Lineage()


def apply(state: Lineage, envelope: Recorded, /) -> Lineage:
    """Fold one envelope in."""
    match envelope.type:
        case "session.began":
            state.origin = _began.decode(envelope.payload)
        case "session.forked":
            state.forks[_fork.decode(envelope.payload).session_id] = envelope.seq
        case "fork.ended":
            state.forks.pop(_fork.decode(envelope.payload).session_id, None)
        case "session.cleared":
            state.cleared_at = envelope.seq
        case unknown:
            raise msgspec.ValidationError(f"{unknown} is not known to this version")
    return state


class Ended(msgspec.Struct, frozen=True):
    """`session.cleared`: what the session held can be shared no more."""


kind = Kind(
    "lineage",
    keys=("session_id",),
    records={BEGAN: Began, FORKED: Fork, ENDED: Fork, CLEARED: Ended},
    fold=Fold(initial, apply, keep, restore),
)
