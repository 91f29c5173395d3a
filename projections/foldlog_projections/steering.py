"""The steering events of one session, in log order. An id's ordinal is its place in the list."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.kind import Content, Incidental, Kind, field_id
from foldlog.words import Line, Shown, said
from foldlog_projections.folds import feed


class SteeringSaved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`steering.saved`: a SteeringEvent, sanitised."""

    session_id: str
    task_id: str
    event_id: str
    event_type: str
    payload: Content[Any]
    source: str
    created_at: Incidental[str]
    trace_id: Incidental[str | None] = None


_VERBS: Final = {
    "INJECT_CONTEXT": "told",
    "REDIRECT": "redirected",
    "CANCEL": "cancelled",
    "PRIORITIZE": "changed the priority of",
    "PAUSE": "paused",
    "RESUME": "resumed",
    "APPROVE": "approved",
    "REJECT": "rejected",
}


def _line(event: SteeringSaved) -> Line:
    given = event.payload if isinstance(event.payload, dict) else {}
    by, verb = given.get("by") or event.source, _VERBS.get(event.event_type)
    payload = {name: value for name, value in given.items() if name not in ("by", "patch_id")}
    what = f"patch {given['patch_id']}" if "patch_id" in given else f"task {event.task_id}"
    told = f"{by} {verb} {what}" if verb else str(by)
    return Line(told, said(payload), about=(event.event_id,), under="")


def _title(event: SteeringSaved) -> str:
    return said(event.payload) if event.event_type == "USER_MESSAGE" else ""


kind: Final = Kind(
    "steering",
    keys=("session_id",),
    owner="session",
    records={"steering.saved": SteeringSaved},
    fold=feed,
    id=field_id("event_id"),
    shown=Shown(
        {"steering.saved": _line},
        titles={"steering.saved": _title},
        audited={"steering.saved": "session.steering"},
    ),
)
