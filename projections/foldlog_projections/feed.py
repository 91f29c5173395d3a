"""A session's feed: every envelope in log order, indexed by its task. By itself it is no view's."""

from __future__ import annotations

import msgspec

from foldlog.envelope import Recorded
from foldlog_projections.items import Items
from foldlog_projections.sequence import initial

name = "feed"
version = 1
latest_only = False

__all__ = ["apply", "initial", "latest_only", "name", "task_of", "version"]


class _Key(msgspec.Struct, frozen=True, gc=False):
    task_id: str


_decoder = msgspec.msgpack.Decoder(_Key)


def task_of(envelope: Recorded) -> str:
    """The task that the envelope is about.

    Raises:
        msgspec.ValidationError: it names none.
    """
    return _decoder.decode(envelope.payload).task_id


def apply(state: Items, envelope: Recorded, /) -> Items:
    """Append `envelope` under its task."""
    state.append(envelope, _decoder.decode(envelope.payload).task_id)
    return state
