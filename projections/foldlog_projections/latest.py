"""The fold that keeps the last envelope only."""

from __future__ import annotations

from foldlog.envelope import Recorded

latest_only = True


def initial() -> Recorded | None:
    """Nothing was saved."""
    return None


def apply(state: Recorded | None, envelope: Recorded, /) -> Recorded | None:
    """`envelope` replaces what was there."""
    return envelope
