"""Folding a whole log at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from foldlog.envelope import Recorded
from foldlog.kind import Kind
from foldlog_projections.fold import Folded, start, step

S = TypeVar("S")


def fold(projection: Kind[S], envelopes: Iterable[Recorded]) -> Folded[S]:
    """Fold a whole log, in order."""
    folded = start(projection)
    for envelope in envelopes:
        step(projection, folded, envelope)
    return folded
