"""One pause: the payload that waits to be resumed, and what was consumed before."""

from __future__ import annotations

from dataclasses import dataclass, field

from foldlog.envelope import Recorded, content_id
from foldlog_projections.kept import as_type

name = "pauses"
version = 1
latest_only = False

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
