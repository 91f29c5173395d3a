"""OTLP requests and responses as bytes: protobuf, and JSON as OTLP has it.

JSON is read by its own schema, not by protobuf's: OTLP writes ids in hexadecimal, where protobuf's
JSON has base64.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from foldlog.otlp.spans import Attributes, Span, SpanEvent


class Malformed(Exception):
    """A request that is not what its content type says. The message quotes nothing of it."""


class Encoding(NamedTuple):
    """One of OTLP's two: how requests are read, and answers and refusals are written.

    `answer` takes how many spans were refused and why, or what else the sender should know.
    """

    media_type: str
    read: Callable[[bytes], list[Span]]
    answer: Callable[[int, str], bytes]
    refusal: Callable[[str], bytes]


# --- protobuf -------------------------------------------------------------------------------------


def _read_protobuf(body: bytes) -> list[Span]:
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        raise Malformed("the body is no ExportTraceServiceRequest in protobuf") from None
    return [
        _of_protobuf(span, resource, of_scope.scope.name)
        for of_resource in request.resource_spans
        for resource in [_attributes(of_resource.resource.attributes)]
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def _of_protobuf(span: Any, resource: Attributes, scope: str) -> Span:
    return Span(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        name=span.name,
        kind=span.kind,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        attributes=_attributes(span.attributes),
        status=span.status.code,
        status_message=span.status.message,
        events=tuple(
            SpanEvent(each.name, each.time_unix_nano, _attributes(each.attributes))
            for each in span.events
        ),
        links=tuple((each.trace_id.hex(), each.span_id.hex()) for each in span.links),
        resource=resource,
        scope=scope,
    )


def _attributes(pairs: Iterable[Any]) -> Attributes:
    return {each.key: _value(each.value) for each in pairs}


def _value(value: Any) -> Any:
    which = value.WhichOneof("value")
    if which == "array_value":
        return [_value(each) for each in value.array_value.values]
    if which == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    return None if which is None else getattr(value, which)


def _answer_protobuf(refused: int, message: str) -> bytes:
    response = ExportTraceServiceResponse()
    if refused or message:
        response.partial_success.rejected_spans = refused
        response.partial_success.error_message = message
    return bytes(response.SerializeToString())


def _refusal_protobuf(message: str) -> bytes:
    # A refusal is a google.rpc.Status. Its `message` has the number of this one's, too.
    return bytes(ExportTracePartialSuccess(error_message=message).SerializeToString())


# --- JSON -----------------------------------------------------------------------------------------

Number = int | str
"""64-bit numbers are text in protobuf's JSON; others may write them as numbers."""


class _Value(msgspec.Struct, rename="camel"):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: Number | None = None
    double_value: float | str | None = None
    array_value: _Values | None = None
    kvlist_value: _Pairs | None = None
    bytes_value: str | None = None


class _Values(msgspec.Struct):
    values: list[_Value] = []


class _Pair(msgspec.Struct):
    key: str = ""
    value: _Value = msgspec.field(default_factory=_Value)


class _Pairs(msgspec.Struct):
    values: list[_Pair] = []


class _Event(msgspec.Struct, rename="camel"):
    name: str = ""
    time_unix_nano: Number = 0
    attributes: list[_Pair] = []


class _Link(msgspec.Struct, rename="camel"):
    trace_id: str = ""
    span_id: str = ""


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""


class _Span(msgspec.Struct, rename="camel"):
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    name: str = ""
    kind: int = 0
    start_time_unix_nano: Number = 0
    end_time_unix_nano: Number = 0
    attributes: list[_Pair] = []
    events: list[_Event] = []
    links: list[_Link] = []
    status: _Status = msgspec.field(default_factory=_Status)


class _Scope(msgspec.Struct):
    name: str = ""


class _OfScope(msgspec.Struct):
    scope: _Scope = msgspec.field(default_factory=_Scope)
    spans: list[_Span] = []


class _Resource(msgspec.Struct):
    attributes: list[_Pair] = []


class _OfResource(msgspec.Struct, rename="camel"):
    resource: _Resource = msgspec.field(default_factory=_Resource)
    scope_spans: list[_OfScope] = []


class _Request(msgspec.Struct, rename="camel"):
    resource_spans: list[_OfResource] = []


_decode: Final = msgspec.json.Decoder(_Request).decode
_PATH: Final = re.compile(r" - at `\$(.*)`$", re.DOTALL)


def _read_json(body: bytes) -> list[Span]:
    try:
        request = _decode(body)
        return [
            _of_json(span, resource, of_scope.scope.name)
            for of_resource in request.resource_spans
            for resource in [_json_attributes(of_resource.resource.attributes)]
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
        ]
    except msgspec.ValidationError as error:
        place = _PATH.search(str(error))
        where = f": look at {place[1]}" if place else ""
        raise Malformed(f"the body is no ExportTraceServiceRequest in JSON{where}") from None
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError):
        raise Malformed("the body is no ExportTraceServiceRequest in JSON") from None


def _of_json(span: _Span, resource: Attributes, scope: str) -> Span:
    return Span(
        trace_id=span.trace_id.lower(),
        span_id=span.span_id.lower(),
        parent_id=span.parent_span_id.lower(),
        name=span.name,
        kind=span.kind,
        start=_nanoseconds(span.start_time_unix_nano),
        end=_nanoseconds(span.end_time_unix_nano),
        attributes=_json_attributes(span.attributes),
        status=span.status.code,
        status_message=span.status.message,
        events=tuple(map(_json_event, span.events)),
        links=tuple((each.trace_id.lower(), each.span_id.lower()) for each in span.links),
        resource=resource,
        scope=scope,
    )


def _json_event(event: _Event) -> SpanEvent:
    time = _nanoseconds(event.time_unix_nano)
    return SpanEvent(event.name, time, _json_attributes(event.attributes))


def _nanoseconds(given: Number) -> int:
    time = int(given)
    if not 0 <= time < 2**64:
        raise ValueError("a time is an unsigned number of 64 bits")
    return time


def _json_attributes(pairs: Iterable[_Pair]) -> Attributes:
    return {each.key: _json_value(each.value) for each in pairs}


def _json_value(value: _Value) -> Any:
    if value.array_value is not None:
        return [_json_value(each) for each in value.array_value.values]
    if value.kvlist_value is not None:
        return _json_attributes(value.kvlist_value.values)
    if value.bytes_value is not None:
        try:
            return base64.b64decode(value.bytes_value, validate=True)
        except binascii.Error:
            raise ValueError("bytesValue is no base64") from None
    if value.int_value is not None:
        return int(value.int_value)
    if value.double_value is not None:
        return float(value.double_value)
    return value.string_value if value.string_value is not None else value.bool_value


def _answer_json(refused: int, message: str) -> bytes:
    # 64-bit numbers are text in protobuf's JSON.
    partial = {"rejectedSpans": str(refused), "errorMessage": message}
    return msgspec.json.encode({"partialSuccess": partial} if refused or message else {})


def _refusal_json(message: str) -> bytes:
    return msgspec.json.encode({"message": message})


PROTOBUF: Final = Encoding(
    "application/x-protobuf", _read_protobuf, _answer_protobuf, _refusal_protobuf
)
JSON: Final = Encoding("application/json", _read_json, _answer_json, _refusal_json)
ENCODINGS: Final = {each.media_type: each for each in (PROTOBUF, JSON)}
