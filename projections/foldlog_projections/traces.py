"""The traces of one session, the one whose trajectory was saved last at the end."""

from __future__ import annotations

import msgspec

from foldlog.envelope import Recorded

name = "traces"
version = 1
latest_only = False


class _Key(msgspec.Struct, frozen=True):
    trace_id: str


_decoder = msgspec.msgpack.Decoder(_Key)


def initial() -> dict[str, None]:
    """No traces."""
    return {}


def apply(state: dict[str, None], envelope: Recorded, /) -> dict[str, None]:
    """Move the trace to the end."""
    trace_id = _decoder.decode(envelope.payload).trace_id
    state.pop(trace_id, None)
    state[trace_id] = None
    return state
