"""The events of one trace, in log order. Readers sort by the event's own `ts`, ties as here."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog import codec
from foldlog.kind import Content, Kind, content_rule
from foldlog_projections.folds import every


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


kind: Final = Kind(
    "events",
    keys=("trace_id",),
    owner="trace",
    records={"event.saved": EventSaved},
    fold=every,
    id=content_rule(_identity),
)
