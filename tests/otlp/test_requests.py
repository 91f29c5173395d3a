"""The HTTP side: what OTLP wants answered, and what nobody may do."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service

import foldlog
from foldlog import otlp
from foldlog.otlp.wire import JSON, PROTOBUF
from tests.otlp.support import Recorder, body

LIMIT = 200_000
PB, JS = {"content-type": "application/x-protobuf"}, {"content-type": "application/json"}


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """A client of a receiver with a token, a small limit and a name."""
    async with foldlog.memory_store() as store:
        application = otlp.app(store, token="t0ken", hosts=("localhost",), max_bytes=LIMIT)
        transport = httpx.ASGITransport(application)
        headers = {"authorization": "Bearer t0ken"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost:4318", headers=headers
        ) as client:
            yield client


def as_json(request: bytes) -> dict[str, Any]:
    """A request in OTLP's JSON: protobuf's, but for the ids."""
    found = json_format.MessageToDict(service.ExportTraceServiceRequest.FromString(request))
    parsed = service.ExportTraceServiceRequest.FromString(request)
    for r, of_resource in enumerate(parsed.resource_spans):
        for s, of_scope in enumerate(of_resource.scope_spans):
            for n, span in enumerate(of_scope.spans):
                written = found["resourceSpans"][r]["scopeSpans"][s]["spans"][n]
                written["traceId"] = span.trace_id.hex().upper()
                written["spanId"] = span.span_id.hex()
                written["parentSpanId"] = span.parent_span_id.hex()
                written["kind"], written["status"] = span.kind, {"code": span.status.code}
                written["status"]["message"] = span.status.message
    return found


def test_json_is_read_as_protobuf_is() -> None:
    recorder = Recorder()
    recorder.agent_run("s")
    with recorder.span("all types", a=[1, 2], b=1.5, c=True, d="x", e=2**62, f=("y",)) as span:
        span.add_event("it happened", {"n": 1})
    request = body(recorder.spans)
    found = list(JSON.read(json.dumps(as_json(request)).encode()))
    assert found == list(PROTOBUF.read(request))
    assert found[-1].attributes == {
        "a": [1, 2],
        "b": 1.5,
        "c": True,
        "d": "x",
        "e": 2**62,
        "f": ["y"],
    }


def test_values_that_only_json_can_spell() -> None:
    def read(value: Any) -> Any:
        pair = {"key": "k", "value": value}
        one = {"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [pair]}]}]}]}
        return next(JSON.read(json.dumps(one).encode())).attributes["k"]

    assert read({"intValue": "9223372036854775807"}) == 2**63 - 1
    assert read({"doubleValue": "-Infinity"}) == float("-inf")
    assert read({"bytesValue": "AAE="}) == b"\0\1"
    assert read({"kvlistValue": {"values": [{"key": "a", "value": {"boolValue": False}}]}}) == {
        "a": False
    }
    assert read({}) is None
    assert read({"unknownValue": 1}) is None


async def test_an_answer_has_the_encoding_of_its_request(http: httpx.AsyncClient) -> None:
    recorder = Recorder()
    recorder.agent_run("s")
    request = body(recorder.spans)
    answer = await http.post(
        "/v1/traces", content=gzip.compress(request), headers=PB | {"content-encoding": "gzip"}
    )
    assert (answer.status_code, answer.headers["content-type"], answer.content) == (
        200,
        "application/x-protobuf",
        b"",
    )
    answer = await http.post(
        "/v1/traces",
        json=as_json(request),
        headers={"content-type": "application/json; charset=utf-8"},
    )
    assert (answer.status_code, answer.headers["content-type"], answer.json()) == (
        200,
        "application/json",
        {},
    )


async def test_spans_without_ids_are_counted_as_refused(http: httpx.AsyncClient) -> None:
    spans = [{"traceId": "a" * 32, "spanId": "b" * 16, "name": "fine"}, {"traceId": "../x"}, {}]
    request = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    answer = await http.post("/v1/traces", json=request)
    assert answer.status_code == 200
    assert answer.json()["partialSuccess"] == {
        "rejectedSpans": "2",
        "errorMessage": "2 refused: a span's trace id is 16 bytes, not all zero",
    }


DEEP = 200_000 // 20


@pytest.mark.parametrize(
    ("headers", "content"),
    [
        (PB, b"\xff\xff"),
        (PB, b"\x0a\x7f"),
        (PB, b"\x0a\x80" * 1000),
        (JS, b""),
        (JS, b"["),
        (JS, b"[]"),
        (JS, b'{"resourceSpans": 5}'),
        (JS, b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": "-1"}]}]}]}'),
        (JS, b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"endTimeUnixNano": "1.5"}]}]}]}'),
        (JS, b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "\\ud800"}]}]}]}'),
        (
            JS,
            b'{"resourceSpans": [{"resource": {"attributes": [{"key": "k", "value": '
            + b'{"arrayValue": {"values": [' * 5000
            + b"]}}" * 5000
            + b"}]}}]}",
        ),
        (PB | {"content-encoding": "gzip"}, b"no gzip"),
        (PB | {"content-encoding": "gzip"}, gzip.compress(b"x" * 100, mtime=0)[:-9]),
    ],
)
async def test_what_is_malformed_is_refused_for_good(
    http: httpx.AsyncClient, headers: dict[str, str], content: bytes
) -> None:
    """As an error of the sender, in its encoding, that quotes nothing of what was sent."""
    answer = await http.post("/v1/traces", content=content, headers=headers)
    assert answer.status_code == 400, answer.content
    assert answer.headers["content-type"] == headers["content-type"]
    assert len(answer.content) < 200


async def test_a_refusal_in_protobuf_is_a_status(http: httpx.AsyncClient) -> None:
    from google.rpc.status_pb2 import Status

    answer = await http.post("/v1/traces", content=b"\xff", headers=PB)
    assert Status.FromString(answer.content).message.startswith("the body is no ExportTrace")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": ""}, 415),
        (PB | {"content-encoding": "br"}, 415),
        (PB | {"authorization": "Bearer t0keN"}, 401),
        (PB | {"authorization": "Basic t0ken"}, 401),
        (PB | {"authorization": ""}, 401),
        (PB | {"host": "rebound.example"}, 400),
        (PB | {"host": "[::1"}, 400),
        (PB | {"origin": "http://localhost:4318"}, 403),
    ],
)
async def test_who_may_send(http: httpx.AsyncClient, headers: dict[str, str], status: int) -> None:
    assert (await http.post("/v1/traces", content=b"", headers=headers)).status_code == status


async def test_a_request_has_a_size(http: httpx.AsyncClient) -> None:
    """As it comes, and unpacked: a bomb is not unpacked further than that."""
    at_most = b"\x0a" + b"\0" * 0
    assert (await http.post("/v1/traces", content=at_most[:0], headers=PB)).status_code == 200
    large = b"x" * (LIMIT + 1)
    assert (await http.post("/v1/traces", content=large, headers=PB)).status_code == 413
    packer = zlib.compressobj(wbits=31)
    bomb = b"".join(packer.compress(bytes(1_000_000)) for _ in range(100)) + packer.flush()
    assert len(bomb) < LIMIT
    zipped = PB | {"content-encoding": "gzip"}
    assert (await http.post("/v1/traces", content=bomb, headers=zipped)).status_code == 413


@pytest.mark.parametrize("name", ["logs", "metrics"])
async def test_what_is_no_trace_is_not_taken(http: httpx.AsyncClient, name: str) -> None:
    """And not acknowledged either. The answer says how to stop sending it."""
    answer = await http.post(f"/v1/{name}", json={})
    assert answer.status_code == 404
    assert answer.json()["message"].endswith(f"set OTEL_{name.upper()}_EXPORTER=none")


async def test_only_posts(http: httpx.AsyncClient) -> None:
    assert (await http.get("/v1/traces")).status_code == 405
    assert (await http.get("/")).status_code == 404


async def test_it_can_be_mounted(http: httpx.AsyncClient) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    async with foldlog.memory_store() as store:
        outer = Starlette(routes=[Mount("/otlp", otlp.app(store))])
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(outer), base_url="http://x"
        ) as client:
            answer = await client.post("/otlp/v1/traces", content=b"", headers=PB)
            assert answer.status_code == 200


def test_an_empty_token_is_none() -> None:
    with pytest.raises(foldlog.ConfigurationError, match="an empty one would let everybody send"):
        otlp.app(foldlog.memory_store(), token="")
