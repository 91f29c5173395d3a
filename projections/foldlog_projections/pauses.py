"""One pause: the payload that waits to be resumed, and what was consumed before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from foldlog.envelope import Recorded, content_id, upsert_id
from foldlog.kind import Content, Fold, Kind
from foldlog_projections.kept import as_type


class PauseSaved(msgspec.Struct, frozen=True):
    """`pause.saved`: a planner's state. It expires `ttl` seconds after the log recorded it."""

    token: str
    ttl: float
    payload: Content[Any]


class PauseConsumed(msgspec.Struct, frozen=True):
    """`pause.consumed`: somebody resumes the save of this envelope id, and nobody else will."""

    consumed: str


def _identity(record: PauseSaved | PauseConsumed, body: bytes) -> str:
    """A save is known by its payload: a late retry must not bring a consumed pause back."""
    if isinstance(record, PauseSaved):
        return upsert_id(msgspec.msgpack.encode(record.payload))
    return upsert_id(body)


CONSUMED = "pause.consumed"


@dataclass(slots=True)
class Pause:
    """`waiting` is the save to resume from, if any.

    `offered` are the contents saved since the last consumption, `spent` those before it: a late
    retry of a spent one must not bring a consumed pause back.
    """

    waiting: Recorded | None = None
    offered: set[str] = field(default_factory=set)
    spent: set[str] = field(default_factory=set)


keep, restore = as_type(Pause)


def initial() -> Pause:
    """No pause."""
    return Pause()


def replaces(envelope: Recorded, /) -> str | None:
    """A save replaces what waits; a consumption is of what it has found."""
    return None if envelope.type == CONSUMED else ""


def apply(state: Pause, envelope: Recorded, /) -> Pause:
    """A consumption empties the pause; a save fills it, unless its content is spent."""
    if envelope.type == CONSUMED:
        state.waiting = None
        state.spent |= state.offered
        state.offered = set()
        return state
    content = content_id(envelope.id)
    if content not in state.spent:
        state.offered.add(content)
        state.waiting = envelope
    return state


kind = Kind(
    "pauses",
    keys=("token",),
    records={"pause.saved": PauseSaved, CONSUMED: PauseConsumed},
    fold=Fold(initial, apply, keep, restore, replaces),
    id=_identity,
)
