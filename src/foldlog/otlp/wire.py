"""OTLP requests and responses as bytes: protobuf, and JSON as OTLP has it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from foldlog.jsonable import count_values
from foldlog.otlp.spans import Attributes, Span, SpanEvent


class Malformed(Exception):
    """A request that is not what its content type says. The message quotes nothing of it."""


class TooMany(Exception):
    """A request has more than `most` of something, which `what` names."""

    def __init__(self, most: int, what: str) -> None:
        super().__init__(f"{most:,} {what}")
        self.most = most
        self.what = what


MAX_VALUES: Final = 250_000
"""Values of a request at most: fields of protobuf, or values of JSON, of spans and all in them."""

MAX_SPANS: Final = 10_000

MAX_IN_SPAN: Final = 20_000
"""Values of one span at most: attributes, events, and all in them."""


class Encoding(NamedTuple):
    """One of OTLP's two: how requests are read, and answers and refusals are written.

    `values_of` returns how many values a request has, without decoding it; it raises TooMany.
    `answer` takes how many spans were refused and why, or what else the sender should know.
    """

    media_type: str
    values_of: Callable[[bytes], int]
    read: Callable[[bytes], Iterator[Span]]
    answer: Callable[[int, str], bytes]
    refusal: Callable[[str], bytes]


def _read_protobuf(body: bytes) -> Iterator[Span]:
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        raise Malformed("the body is no ExportTraceServiceRequest in protobuf") from None
    return _spans(request, bytes.hex)


def _read_json(body: bytes) -> Iterator[Span]:
    try:
        given = msgspec.json.decode(body, type=dict[str, Any])
        request = ParseDict(given, ExportTraceServiceRequest(), ignore_unknown_fields=True)
    except (ParseError, ValueError, RecursionError):
        raise Malformed("the body is no ExportTraceServiceRequest in JSON") from None
    _count_protobuf(request.SerializeToString())
    return _spans(request, _hexadecimal)


def _hexadecimal(id: bytes) -> str:
    # OTLP's JSON has ids in hexadecimal, which protobuf's JSON has taken for base64.
    return base64.b64encode(id).decode().lower()


def _spans(request: ExportTraceServiceRequest, text_of: Callable[[bytes], str]) -> Iterator[Span]:
    for of_resource in request.resource_spans:
        resource = _attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield _span(span, text_of, resource, of_scope.scope.name)


def _span(span: Any, text_of: Callable[[bytes], str], resource: Attributes, scope: str) -> Span:
    return Span(
        trace_id=text_of(span.trace_id),
        span_id=text_of(span.span_id),
        parent_id=text_of(span.parent_span_id),
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
        links=tuple((text_of(each.trace_id), text_of(each.span_id)) for each in span.links),
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


def _answer_json(refused: int, message: str) -> bytes:
    # 64-bit numbers are text in protobuf's JSON.
    partial = {"rejectedSpans": str(refused), "errorMessage": message}
    return msgspec.json.encode({"partialSuccess": partial} if refused or message else {})


def _refusal_json(message: str) -> bytes:
    return msgspec.json.encode({"message": message})


# --- how much there is, before anything is decoded ------------------------------------------------

_Nested = dict[int, "_Nested"]
"""The fields of a message that are messages, by number."""

_VALUE: Final[_Nested] = {}
_PAIR: Final[_Nested] = {2: _VALUE}
_VALUE.update({5: {1: _VALUE}, 6: {1: _PAIR}})
_SPAN: Final[_Nested] = {9: _PAIR, 11: {3: _PAIR}, 13: {4: _PAIR}, 15: {}}
_REQUEST: Final[_Nested] = {1: {1: {1: _PAIR}, 2: {1: {3: _PAIR}, 2: _SPAN}}}

_FIXED: Final = {1: 8, 5: 4}
"""Bytes of a field, by its wire type."""


def _count_protobuf(body: bytes) -> int:
    """Count the fields of a request, of all messages in it. Raises TooMany."""
    found = spans = at = span_end = span_from = 0
    within = [(len(body), _REQUEST)]
    try:
        while within:
            end, nested = within[-1]
            if at >= end:
                within.pop()
                continue
            tag, at = _varint(body, at)
            found += 1
            if found > MAX_VALUES:
                raise TooMany(MAX_VALUES, "values")
            if at < span_end and found - span_from > MAX_IN_SPAN:
                raise TooMany(MAX_IN_SPAN, "values in a span")
            if tag & 7 == 2:
                size, at = _varint(body, at)
                inner = nested.get(tag >> 3)
                if inner is None:
                    at += size
                    continue
                if inner is _SPAN:
                    spans, span_end, span_from = spans + 1, at + size, found
                if spans > MAX_SPANS:
                    raise TooMany(MAX_SPANS, "spans")
                within.append((at + size, inner))
            elif tag & 7 == 0:
                _, at = _varint(body, at)
            else:
                at += _FIXED[tag & 7]
    except (IndexError, KeyError):
        pass  # it is malformed: decoding it says so
    return found


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := body[at]) & 0x80:
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
    return value | byte << shift, at + 1


def _count_json(body: bytes) -> int:
    found = count_values(body)
    if found > MAX_VALUES:
        raise TooMany(MAX_VALUES, "values")
    return found


PROTOBUF: Final = Encoding(
    *("application/x-protobuf", _count_protobuf, _read_protobuf),
    *(_answer_protobuf, _refusal_protobuf),
)
JSON: Final = Encoding("application/json", _count_json, _read_json, _answer_json, _refusal_json)
ENCODINGS: Final = {each.media_type: each for each in (PROTOBUF, JSON)}
