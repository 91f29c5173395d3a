"""The tasks of one session: the last state of each, in the order of their first save."""

from __future__ import annotations

import msgspec

from foldlog.envelope import Recorded
from foldlog_projections.kept import as_type

name = "tasks"
version = 1
latest_only = False


class _Key(msgspec.Struct, frozen=True):
    task_id: str


_decoder = msgspec.msgpack.Decoder(_Key)
keep, restore = as_type(dict[str, Recorded])


def initial() -> dict[str, Recorded]:
    """No tasks."""
    return {}


def apply(state: dict[str, Recorded], envelope: Recorded, /) -> dict[str, Recorded]:
    """A dict keeps a key's first place when its value is replaced: the order of first saves."""
    state[_decoder.decode(envelope.payload).task_id] = envelope
    return state
