"""One pause: the payload that waits to be resumed, and the contents consumed before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from foldlog.envelope import Recorded, content_id, upsert_id
from foldlog.kind import Content, Fold, Kind, content_rule
from foldlog.words import Line, Shown, asked
from foldlog_projections import waiting

CONSUMED = "pause.consumed"


class PauseSaved(msgspec.Struct, frozen=True):
    """`pause.saved`: a planner's state. It expires `ttl` seconds after the log recorded it."""

    token: str
    ttl: float
    payload: Content[Any]


class PauseConsumed(msgspec.Struct, frozen=True):
    """`pause.consumed`: the save of this envelope id is resumed, by exactly one caller."""

    consumed: str


def _identity(record: PauseSaved | PauseConsumed, body: bytes) -> str:
    """A save is known by its payload: a late retry must not bring a consumed pause back."""
    if isinstance(record, PauseSaved):
        return upsert_id(msgspec.msgpack.encode(record.payload))
    return upsert_id(body)


@dataclass(slots=True)
class Pause:
    """`waiting` is the save to resume from, if any.

    `offered` are the contents saved since the last consumption, `spent` those before it: a late
    retry of a spent one must not bring a consumed pause back.
    """

    waiting: Recorded | None = None
    offered: set[str] = field(default_factory=set)
    spent: set[str] = field(default_factory=set)


def _replaced(envelope: Recorded) -> str | None:
    """A save replaces the one that waits; a consumption replaces nothing."""
    return None if envelope.type == CONSUMED else ""


def _apply(state: Pause, envelope: Recorded) -> Pause:
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


kind: Final = Kind(
    "pauses",
    keys=("token",),
    listed=[waiting.listing("pause")],
    records={"pause.saved": PauseSaved, CONSUMED: PauseConsumed},
    fold=Fold(Pause, _apply, state=Pause, takes="envelope", replaces=_replaced),
    id=content_rule(_identity),
    shown=Shown(
        {
            "pause.saved": lambda pause: Line(
                "asked", asked(pause.payload), tone="waiting", about=("pause",), under=""
            ),
            CONSUMED: Line("pause ended", about=("pause",)),
        },
        group="steering",
    ),
)
