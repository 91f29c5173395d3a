"""The commonest fold: every envelope, in log order. By itself it is no view's."""

from __future__ import annotations

from foldlog.envelope import Recorded
from foldlog_projections.items import Items

name = "sequence"
version = 1
latest_only = False


def initial() -> Items:
    """No envelopes."""
    return Items()


def apply(state: Items, envelope: Recorded, /) -> Items:
    """Append `envelope`."""
    state.append(envelope)
    return state
