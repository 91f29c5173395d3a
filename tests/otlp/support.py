"""Spans of an agent, made by OpenTelemetry's SDK and sent by its own exporter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer


class Recorder:
    """A tracer, and the spans that it has ended: in the order of their ends."""

    def __init__(self) -> None:
        self._memory = InMemorySpanExporter()
        provider = TracerProvider(resource=Resource({"service.name": "trips", "host.name": "h"}))
        provider.add_span_processor(SimpleSpanProcessor(self._memory))
        self.tracer: Tracer = provider.get_tracer("tests")

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """What has ended."""
        return self._memory.get_finished_spans()

    @contextmanager
    def span(self, name: str, kind: SpanKind = SpanKind.INTERNAL, **named: Any) -> Iterator[Any]:
        """A span whose attributes are named with `__` for dots."""
        attributes = {name.replace("__", "."): value for name, value in named.items()}
        with self.tracer.start_as_current_span(name, kind=kind, attributes=attributes) as span:
            yield span

    def agent_run(self, session: str | None = None, question: str = "Where to?") -> None:
        """An agent that asks a model, calls a tool, which fails, and asks again."""
        given: dict[str, Any] = {} if session is None else {"gen_ai__conversation__id": session}
        told = [text("user", question)]
        call = {"type": "tool_call", "id": "c1", "name": "search", "arguments": {"to": "Oslo"}}
        back = {"type": "tool_call_response", "id": "c1", "response": "no flights"}
        with self.span(
            "invoke_agent planner",
            gen_ai__operation__name="invoke_agent",
            gen_ai__agent__name="planner",
            gen_ai__usage__input_tokens=30,
            gen_ai__usage__output_tokens=7,
            **given,
        ):
            self.chat(told, {"role": "assistant", "parts": [call], "finish_reason": "tool_calls"})
            with self.span(
                "execute_tool search",
                gen_ai__operation__name="execute_tool",
                gen_ai__tool__name="search",
                gen_ai__tool__call__id="c1",
                gen_ai__tool__call__arguments='{"to": "Oslo"}',
                gen_ai__tool__call__result="no flights",
            ) as span:
                span.set_status(Status(StatusCode.ERROR, "no flights"))
            with self.span("GET /flights", http__request__method="GET"):
                pass
            told += [
                {"role": "assistant", "parts": [call]},
                {"role": "tool", "parts": [back]},
            ]
            self.chat(told, text("assistant", "There are no flights to Oslo."))

    def chat(self, told: list[Any], answered: Any) -> None:
        """A call of a model."""
        with self.span(
            "chat gpt-4o",
            SpanKind.CLIENT,
            gen_ai__operation__name="chat",
            gen_ai__provider__name="openai",
            gen_ai__request__model="gpt-4o",
            gen_ai__request__temperature=0.5,
            gen_ai__usage__input_tokens=15,
            gen_ai__usage__output_tokens=3,
            gen_ai__input__messages=json.dumps(told),
            gen_ai__output__messages=json.dumps([answered]),
        ):
            pass


def text(role: str, said: str) -> dict[str, Any]:
    """A message that is a text."""
    return {"role": role, "parts": [{"type": "text", "content": said}]}


def body(spans: Sequence[ReadableSpan]) -> bytes:
    """The request that an exporter sends."""
    return encode_spans(spans).SerializeToString()


async def export(url: str, spans: Sequence[ReadableSpan], **options: Any) -> bool:
    """Send spans with the real exporter; whether they were acknowledged."""
    options = {"compression": Compression.Gzip, "timeout": 60} | options

    def send() -> SpanExportResult:
        exporter = OTLPSpanExporter(f"{url}/v1/traces", **options)
        try:
            return exporter.export(spans)
        finally:
            exporter.shutdown()

    return await asyncio.to_thread(send) is SpanExportResult.SUCCESS
