"""The events of one trace, in log order. Readers sort by the event's own `ts`, ties as here."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog import codec
from foldlog.kind import Content, Kind, content_rule
from foldlog.words import Line, Shown, clip, first_text, said
from foldlog_projections.folds import every
from foldlog_projections.items import Items


class EventSaved(msgspec.Struct, frozen=True):
    """`event.saved`: a StoredEvent."""

    trace_id: str | None
    ts: float
    kind: str
    node_name: str | None
    node_id: str | None
    payload: Content[Any]


def _identity(event: EventSaved, body: bytes) -> str:
    """Events of one content are one event: the order of keys in their payload aside."""
    content = codec.native_digest(event.payload)
    return codec.fingerprint(
        (event.trace_id, event.ts, event.kind, event.node_name, event.node_id, content)
    )


_DOERS: Final = {"execute_tool": "tool", "chat": "model", "invoke_agent": "agent"}
_MESSAGE: Final = "message."
_ON_PAGE: Final = "ui."


def _line(event: EventSaved) -> Line:
    payload = event.payload if isinstance(event.payload, dict) else {}
    error = payload.get("error")
    text = said(error or payload.get("output") or event.payload)
    if event.kind.startswith(_ON_PAGE):  # what somebody did on the page
        return Line(f"{payload.get('by')} {event.kind.removeprefix(_ON_PAGE)}", text)
    if event.kind.startswith(_MESSAGE):
        return Line(event.kind.removeprefix(_MESSAGE), text, group="messages")
    what = " ".join(filter(None, (event.kind.replace("_", " "), event.node_name)))
    if "mapping" in payload:  # a span of an instrumented program
        name, doer = payload.get("name"), _DOERS.get(payload.get("operation", ""), "")
        what = f"{doer} {event.node_name}".strip() if event.node_name != name else str(name)
        text = clip(first_text(error or payload.get("output", [])[-1:]))
    tone = "failed" if error or "error" in event.kind or "fail" in event.kind else ""
    return Line(what, text, group="tools" if "tool" in event.kind else "", tone=tone)


def _title(event: EventSaved) -> str:
    if event.kind == "message.user":
        return said(event.payload)
    payload = event.payload if isinstance(event.payload, dict) else {}
    return clip(first_text(payload.get("input", [])[-1:])) if "mapping" in payload else ""


def _entries(events: Items) -> dict[str, Any]:
    """By content: of a fork and its origin, the audit trail is another trace."""
    saved = [msgspec.structs.replace(kind.decode(each), trace_id=None) for each in events]
    return {_identity(each, b"")[:8]: each for each in saved}


kind: Final = Kind(
    "events",
    keys=("trace_id",),
    owner="trace",
    records={"event.saved": EventSaved},
    fold=every,
    id=content_rule(_identity),
    shown=Shown({"event.saved": _line}, titles={"event.saved": _title}, entries=_entries),
)
