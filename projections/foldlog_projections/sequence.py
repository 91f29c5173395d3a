"""The commonest fold: every envelope, in log order. By itself it is no view's."""

from __future__ import annotations

from foldlog.envelope import Recorded

name = "sequence"
version = 1
latest_only = False


def initial() -> list[Recorded]:
    """No envelopes."""
    return []


def apply(state: list[Recorded], envelope: Recorded, /) -> list[Recorded]:
    """Append `envelope`."""
    state.append(envelope)
    return state
