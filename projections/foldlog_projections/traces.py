"""The traces of one session, the one whose trajectory was saved last at the end.

With each trace, which content was saved last: it tells a trajectory from one that was cleared and
that a late writer has put back.
"""

from __future__ import annotations

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog_projections.kept import as_type


class TraceSaved(msgspec.Struct, frozen=True):
    """`trace.saved`: a trajectory of this trace was saved; `content` is its digest."""

    trace_id: str
    content: str


_decoder = msgspec.msgpack.Decoder(TraceSaved)
keep, restore = as_type(dict[str, str])


def initial() -> dict[str, str]:
    """No traces."""
    return {}


def replaces(envelope: Recorded, /) -> str:
    """The trace."""
    return _decoder.decode(envelope.payload).trace_id


def apply(state: dict[str, str], envelope: Recorded, /) -> dict[str, str]:
    """Move the trace to the end."""
    entry = _decoder.decode(envelope.payload)
    state.pop(entry.trace_id, None)
    state[entry.trace_id] = entry.content
    return state


kind = Kind(
    "traces",
    keys=("session_id",),
    owner="session",
    records={"trace.saved": TraceSaved},
    fold=Fold(initial, apply, keep, restore, replaces),
)
