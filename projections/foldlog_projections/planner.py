"""The planner events of one trace, in the order in which they were emitted."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.kind import Content, Kind, content_digest
from foldlog.words import Line, Shown, brief, clip
from foldlog_projections.folds import every


class PlannerEventSaved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`planner.saved`: a PlannerEvent."""

    event_type: str
    ts: float
    trajectory_step: int = 0
    thought: Content[str | None] = None
    node_name: str | None = None
    latency_ms: float | None = None
    token_estimate: int | None = None
    error: Content[str | None] = None
    extra: Content[Any] = {}


def _did(event: PlannerEventSaved) -> Line:
    what = " ".join(filter(None, (event.event_type.replace("_", " "), event.node_name)))
    text = clip(event.thought or event.error or "") or brief(event.extra or None)
    return Line(what, text, tone="failed" if event.error else "")


kind: Final = Kind(
    "planner",
    keys=("trace_id",),
    owner="trace",
    records={"planner.saved": PlannerEventSaved},
    fold=every,
    id=content_digest,
    shown=Shown({"planner.saved": _did}),
)
