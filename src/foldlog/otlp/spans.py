"""A span as OTLP sends it, in plain values, whatever encoding it came in."""

from __future__ import annotations

from typing import Any, Final

import msgspec

INTERNAL: Final = 1
CLIENT: Final = 3
ERROR: Final = 2
KINDS: Final = ("unspecified", "internal", "server", "client", "producer", "consumer")

Attributes = dict[str, Any]


class SpanEvent(msgspec.Struct, frozen=True):
    """Something that happened within a span. `time` in nanoseconds of Unix time."""

    name: str
    time: int
    attributes: Attributes


class Span(msgspec.Struct, frozen=True):
    """One span. Ids in hexadecimal, as they were sent; `start` and `end` in nanoseconds.

    `kind` and `status` are OTLP's numbers; `links` are pairs of a trace's and a span's id;
    `resource` are the attributes of what sent it, `scope` names the instrumentation.
    """

    trace_id: str
    span_id: str
    name: str
    start: int
    end: int
    attributes: Attributes
    parent_id: str = ""
    kind: int = 0
    status: int = 0
    status_message: str = ""
    events: tuple[SpanEvent, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    resource: Attributes = {}
    scope: str = ""
