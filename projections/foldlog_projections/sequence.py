"""The commonest fold: every envelope, in log order."""

from __future__ import annotations

from foldlog.envelope import Recorded


def initial() -> list[Recorded]:
    """No envelopes."""
    return []


def apply(state: list[Recorded], envelope: Recorded, /) -> list[Recorded]:
    """Append `envelope`."""
    state.append(envelope)
    return state
