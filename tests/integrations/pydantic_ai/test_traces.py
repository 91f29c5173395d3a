"""What Pydantic AI itself reports to OpenTelemetry, at the receiver of traces."""

from __future__ import annotations

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.common")

import httpx
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.test import TestModel

import foldlog
from foldlog import otlp


async def test_a_run_is_a_session_with_its_trace(store: foldlog.Store) -> None:
    """Span by span, as they end: the session is known, and nothing is doubled in the end."""
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    agent = Agent(TestModel(), name="planner")
    agent.instrument = InstrumentationSettings(tracer_provider=provider)

    @agent.tool_plain
    def search(to: str) -> str:
        return "no flights"

    await agent.run("Where to?", conversation_id="trip-7")
    transport = httpx.ASGITransport(otlp.app(store))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        spans = memory.get_finished_spans()
        for batch in ([spans[0]], [spans[1]], spans):
            answer = await client.post(
                "/v1/traces",
                content=encode_spans(batch).SerializeToString(),
                headers={"content-type": "application/x-protobuf"},
            )
            assert (answer.status_code, answer.content) == (200, b"")

    assert await store.sessions() == ["trip-7"]
    [trace_id] = await store.list_traces("trip-7")
    run, chat, tool, last = await store.load_history(trace_id)
    assert [each.kind for each in (run, chat, tool, last)] == [
        "gen_ai.invoke_agent",
        "gen_ai.chat",
        "gen_ai.execute_tool",
        "gen_ai.chat",
    ]
    assert [each.node_name for each in (run, chat, tool)] == ["planner", "test", "search"]
    told, call, answered = last.payload["input"]
    assert told["parts"] == [{"type": "text", "content": "Where to?"}]
    assert call["parts"][0]["arguments"] == tool.payload["arguments"] == {"to": "a"}
    assert (answered["role"], answered["parts"][0]["response"]) == ("tool", "no flights")
    assert tool.payload["result"] == "no flights"
    spent = [each.payload["usage"]["input_tokens"] for each in (run, chat, last)]
    assert spent[0] == spent[1] + spent[2]
    assert run.payload["whole"]
