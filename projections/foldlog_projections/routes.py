"""Which bindings a router session has made, in the order of their first save.

An index only: the bindings themselves stand under their traces.
"""

from __future__ import annotations

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog_projections.kept import as_pairs


class Route(msgspec.Struct, frozen=True):
    """Where a binding stands: its trace, and its key there."""

    trace_id: str
    context_id: str | None
    task_id: str


_decoder = msgspec.msgpack.Decoder(Route)
keep, restore = as_pairs(Route, int)


def initial() -> dict[Route, int]:
    """No routes."""
    return {}


def replaces(envelope: Recorded, /) -> tuple[str | None, ...]:
    """The route."""
    route = _decoder.decode(envelope.payload)
    return route.trace_id, route.context_id, route.task_id


def apply(state: dict[Route, int], envelope: Recorded, /) -> dict[Route, int]:
    """Note the sequence at which the route was saved last; its place stays that of its first."""
    state[_decoder.decode(envelope.payload)] = envelope.seq
    return state


kind = Kind(
    "routes",
    keys=("router_session_id",),
    records={"route.saved": Route},
    fold=Fold(initial, apply, keep, restore, replaces),
)
