"""An index of the bindings that a router session has made, in the order of their first save."""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog.words import Shown


class Route(msgspec.Struct, frozen=True):
    """Where a binding stands: its trace, and its key there."""

    trace_id: str
    context_id: str | None
    task_id: str


def _save(state: dict[Route, int], route: Route, envelope: Recorded) -> dict[Route, int]:
    """Note the sequence at which the route was saved last; its place stays that of its first."""
    state[route] = envelope.seq
    return state


kind: Final = Kind(
    "routes",
    keys=("router_session_id",),
    records={"route.saved": Route},
    fold=Fold(dict, _save, state=dict[Route, int], replaces=("trace_id", "context_id", "task_id")),
    shown=Shown({"route.saved": "remote task {task_id} can be found"}, group="lists"),
)
