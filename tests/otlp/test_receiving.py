"""What arrives is on the log when it is acknowledged: once, in its trace and in its session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

import foldlog
from foldlog import otlp
from foldlog.otlp.wire import PROTOBUF
from tests.conftest import OpenStore
from tests.otlp.conftest import Serving
from tests.otlp.support import Recorder, body, export
from tests.redaction.leaks import raw
from tests.support.flaky import FlakyLog

SECRET = "hunter2"
PB = {"content-type": "application/x-protobuf"}


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def client(store: foldlog.Store, **options: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(otlp.app(store, **options))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")


async def send(store: foldlog.Store, spans: Any, **options: Any) -> httpx.Response:
    """Send to a receiver that was started just now."""
    async with client(store, **options) as http:
        return await post(http, spans)


async def post(http: httpx.AsyncClient, spans: Any) -> httpx.Response:
    return await http.post("/v1/traces", content=body(spans), headers=PB)


async def kinds_of(store: foldlog.Store, trace_id: str) -> list[str]:
    return [event.kind for event in await store.load_history(trace_id)]


RUN = ["gen_ai.invoke_agent", "gen_ai.chat", "gen_ai.execute_tool", "gen_ai.chat"]


async def test_an_agents_run_by_the_real_exporter(
    store: foldlog.Store, serving: Serving, recorder: Recorder
) -> None:
    """Gzipped protobuf. Its session has the trace, the trace has the spans in their order."""
    recorder.agent_run("trip-7")
    async with serving(store) as url:
        assert await export(url, recorder.spans)
    assert await store.sessions() == ["trip-7"]
    [trace_id] = await store.list_traces("trip-7")
    agent, chat, tool, last = await store.load_history(trace_id)
    assert [each.kind for each in (agent, chat, tool, last)] == RUN
    assert [each.node_name for each in (agent, chat, tool)] == ["planner", "gpt-4o", "search"]
    assert chat.payload["usage"] == {"input_tokens": 15, "output_tokens": 3}
    assert chat.payload["parent_span_id"] == agent.node_id
    assert tool.payload["arguments"] == {"to": "Oslo"}
    assert tool.payload["error"] == {"type": "error", "message": "no flights"}
    assert last.payload["output"][0]["parts"][0]["content"] == "There are no flights to Oslo."


async def test_a_whole_pipeline_of_the_sdk(store: foldlog.Store, serving: Serving) -> None:
    async with serving(store, token="t0ken") as url:

        def program() -> None:
            exporter = OTLPSpanExporter(
                f"{url}/v1/traces", headers={"authorization": "Bearer t0ken"}
            )
            provider = TracerProvider()
            provider.add_span_processor(BatchSpanProcessor(exporter))
            recorder = Recorder()
            recorder.tracer = provider.get_tracer("a program")
            recorder.agent_run("s")
            provider.shutdown()

        await asyncio.to_thread(program)
    [trace_id] = await store.list_traces("s")
    assert await kinds_of(store, trace_id) == RUN


async def test_a_batch_that_is_sent_again_has_no_effect(
    reopen: OpenStore, recorder: Recorder
) -> None:
    """Neither at this receiver, nor at another one, whose store has read nothing yet."""
    recorder.agent_run("s")
    one, other = await reopen(), await reopen()
    for store in (one, one, other):
        assert (await send(store, recorder.spans)).content == b""
    for store in (one, other, await reopen()):
        [trace_id] = await store.list_traces("s")
        assert await kinds_of(store, trace_id) == RUN


async def test_one_batch_at_two_receivers_at_once(reopen: OpenStore, recorder: Recorder) -> None:
    recorder.agent_run("s")
    stores = await asyncio.gather(reopen(), reopen())
    assert {
        r.status_code for r in await asyncio.gather(*(send(s, recorder.spans) for s in stores))
    } == {200}
    reader = await reopen()
    [trace_id] = await reader.list_traces("s")
    assert await kinds_of(reader, trace_id) == RUN


async def test_a_span_of_other_content_and_the_same_id_has_no_effect(
    store: foldlog.Store, recorder: Recorder
) -> None:
    """Another version of the mapping, or of `redact=`, must not double what was sent again."""
    recorder.agent_run("s")
    await send(store, recorder.spans)
    changed = encode_spans(recorder.spans)
    for span in changed.resource_spans[0].scope_spans[0].spans:
        span.name = "changed"
    async with client(store) as http:
        await http.post("/v1/traces", content=changed.SerializeToString(), headers=PB)
    [trace_id] = await store.list_traces("s")
    assert await kinds_of(store, trace_id) == RUN


# --- sessions -------------------------------------------------------------------------------------


async def test_a_trace_that_names_no_session_is_one_of_its_own(
    store: foldlog.Store, recorder: Recorder
) -> None:
    recorder.agent_run()
    await send(store, recorder.spans)
    [session] = await store.sessions()
    assert await store.list_traces(session) == [session]
    assert await kinds_of(store, session) == RUN


async def test_a_session_that_is_named_late(reopen: OpenStore, recorder: Recorder) -> None:
    """Spans come as they end: the agent's, which knows the session, last. Also to another one."""
    recorder.agent_run("late")
    *inner, outer = recorder.spans
    one, other = await reopen(), await reopen()
    await send(one, inner)
    [provisional] = await one.sessions()
    assert await one.list_traces(provisional) == [provisional]
    await send(other, [outer])
    assert await other.sessions() == ["late"]
    await send(one, inner[:1])  # it has heard nothing of the other's
    assert await one.sessions() in (["late"], sorted(["late", provisional]))
    assert await other.list_traces("late") == [provisional]
    assert await kinds_of(other, provisional) == RUN


async def test_spans_that_come_after_their_session_was_named(
    reopen: OpenStore, recorder: Recorder
) -> None:
    recorder.agent_run("early")
    *inner, outer = recorder.spans
    await send(await reopen(), [outer])
    store = await reopen()  # after a restart
    await send(store, inner)
    assert await store.sessions() == ["early"]


async def test_the_moment_after_a_span_has_arrived(
    store: foldlog.Store, recorder: Recorder
) -> None:
    recorder.agent_run("s")
    for each in recorder.spans:
        await send(store, [each])
    context = recorder.spans[1].context
    past = store.at(f"{context.trace_id:032x}:{context.span_id:016x}")
    [trace_id] = await store.list_traces("s")
    assert await kinds_of(past, trace_id) == ["gen_ai.chat", "gen_ai.execute_tool"]


async def test_a_trace_keeps_its_trajectory(store: foldlog.Store, recorder: Recorder) -> None:
    """Spans of a trace may arrive before a program saves its trajectory, and after."""
    recorder.agent_run("s")
    *inner, outer = recorder.spans
    await send(store, [outer])
    [trace_id] = await store.list_traces("s")
    assert await store.get_trajectory(trace_id, "s") is None
    trajectory = foldlog.Trajectory("Where to?")
    await store.save_trajectory(trace_id, "s", trajectory)
    await store.save_trajectory("another", "s", trajectory)
    await send(store, inner)
    assert await store.get_trajectory(trace_id, "s") == trajectory
    assert await store.list_traces("s") == [trace_id, "another"]


async def test_a_session_of_many_traces(store: foldlog.Store, recorder: Recorder) -> None:
    for _ in range(3):
        recorder.agent_run("s")
    await send(store, recorder.spans)
    assert await store.sessions() == ["s"]
    assert len(await store.list_traces("s")) == 3


async def test_erasing_a_session_takes_its_spans(store: foldlog.Store, recorder: Recorder) -> None:
    """What is sent afterwards begins it anew, also the same batch, and goes again."""
    recorder.agent_run("s", question=SECRET)
    async with client(store) as http:
        await post(http, recorder.spans)
        [trace_id] = await store.list_traces("s")
        await store.clear_session("s")
        assert (await store.sessions(), await store.load_history(trace_id)) == ([], [])

        for _ in range(2):
            await post(http, recorder.spans)
            assert await store.list_traces("s") == [trace_id]
            assert len(await store.load_history(trace_id)) == len(RUN)
        await store.clear_session("s")
        assert (await store.sessions(), await store.load_history(trace_id)) == ([], [])

        parent = SpanContext(int(trace_id, 16), 1, is_remote=True, trace_flags=TraceFlags(1))
        again = Recorder()
        with use_span(NonRecordingSpan(parent)):
            again.agent_run(question=SECRET)
        await post(http, again.spans)
        assert await store.list_traces("s") == [trace_id]
        assert len(await store.load_history(trace_id)) == len(RUN)
        await store.clear_session("s")
        assert (await store.sessions(), await store.load_history(trace_id)) == ([], [])
    assert SECRET.encode() not in await raw(store)


# --- what is kept ---------------------------------------------------------------------------------


async def test_spans_that_are_not_of_ai_are_kept_on_request(
    store: foldlog.Store, recorder: Recorder
) -> None:
    recorder.agent_run("s")
    await send(store, recorder.spans, everything=True)
    [trace_id] = await store.list_traces("s")
    assert sorted(await kinds_of(store, trace_id)) == sorted([*RUN, "otel.span"])


async def test_they_make_no_session_by_themselves(store: foldlog.Store, recorder: Recorder) -> None:
    with recorder.span("GET /health"):
        pass
    await send(store, recorder.spans, everything=True)
    assert await store.sessions() == []
    trace_id = format(recorder.spans[0].context.trace_id, "032x")
    assert await kinds_of(store, trace_id) == ["otel.span"]


async def test_content_passes_redact(reopen: OpenStore, recorder: Recorder) -> None:
    def redact(saving: foldlog.Saving) -> dict[str, Any]:
        return {name: cleaned(value) for name, value in saving.values.items()}

    def cleaned(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: cleaned(each) for name, each in value.items()}
        if isinstance(value, list):
            return [cleaned(each) for each in value]
        return value.replace(SECRET, "***") if isinstance(value, str) else value

    recorder.agent_run("s", question=f"my password is {SECRET}")
    await send(await reopen(redact=redact), recorder.spans)
    reader = await reopen()
    [trace_id] = await reader.list_traces("s")
    history = repr(await reader.load_history(trace_id))
    assert "my password is ***" in history
    assert SECRET not in history


async def test_a_hook_that_leaves_nothing_of_a_payload(
    reopen: OpenStore, recorder: Recorder
) -> None:
    """Nobody can tell then which session the spans before have named."""

    def redact(saving: foldlog.Saving) -> dict[str, Any]:
        return dict.fromkeys(saving.values, "gone")

    recorder.agent_run("s")
    *inner, outer = recorder.spans
    await send(await reopen(redact=redact), [outer])
    store = await reopen(redact=redact)
    assert (await send(store, inner)).status_code == 200
    assert "s" in await store.sessions()


async def test_a_hook_that_fails_refuses_only_its_span(
    reopen: OpenStore, recorder: Recorder
) -> None:
    """The others are kept, and the sender is told how many were not."""

    def redact(saving: foldlog.Saving) -> dict[str, Any]:
        if saving.about["node_name"] == "search":
            raise ValueError(SECRET)
        return saving.values

    recorder.agent_run("s")
    store = await reopen(redact=redact)
    answer = await send(store, recorder.spans)
    assert answer.status_code == 200
    partial = service.ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert partial.rejected_spans == 1
    assert "redact= for event.saved: it raised ValueError" in partial.error_message
    assert SECRET not in partial.error_message
    [trace_id] = await store.list_traces("s")
    assert await kinds_of(store, trace_id) == [RUN[0], RUN[1], RUN[3]]


async def test_a_span_that_is_too_large_keeps_what_fits(
    reopen: OpenStore, recorder: Recorder
) -> None:
    """Numbers and names stay; the sender is told, and nothing is refused."""
    with recorder.span(
        "chat m",
        gen_ai__operation__name="chat",
        gen_ai__usage__input_tokens=9,
        gen_ai__prompt="x" * 9_000_000,
    ):
        pass
    recorder.agent_run("s")
    store = await reopen()
    answer = await send(store, recorder.spans)
    assert answer.status_code == 200
    trace_id = format(recorder.spans[0].context.trace_id, "032x")
    [event] = await store.load_history(trace_id)
    if (await store.health()).url.startswith("nats"):
        assert event.payload["left_out"] == ["input", "resource"]
        assert b"1 shortened" in answer.content
    assert event.payload["usage"] == {"input_tokens": 9}


# --- a log that is away ---------------------------------------------------------------------------


@pytest.fixture
async def flaky() -> AsyncIterator[tuple[FlakyLog, foldlog.Store]]:
    log = FlakyLog()
    async with foldlog.memory_store(log=log) as store:
        yield log, store


@pytest.mark.parametrize("state", ["away", "not stored"])
async def test_while_the_log_is_away_exporters_are_to_send_again(
    flaky: tuple[FlakyLog, foldlog.Store], recorder: Recorder, state: Any
) -> None:
    log, store = flaky
    recorder.agent_run("s")
    log.state = state
    refused = await send(store, recorder.spans)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert b"nothing was acknowledged" in refused.content
    log.state = "up"
    assert (await send(store, recorder.spans)).status_code == 200
    [trace_id] = await store.list_traces("s")
    assert await kinds_of(store, trace_id) == RUN


async def test_a_closed_store(recorder: Recorder) -> None:
    recorder.agent_run("s")
    async with foldlog.memory_store() as store:
        pass
    assert (await send(store, recorder.spans)).status_code == 503


def test_protobuf_is_read_as_it_was_written(recorder: Recorder) -> None:
    recorder.agent_run("s")
    read = list(PROTOBUF.read(body(recorder.spans)))
    assert [each.name for each in read] == [each.name for each in recorder.spans]
    assert read[0].resource == {"service.name": "trips", "host.name": "h"}
    assert read[0].attributes["gen_ai.request.temperature"] == 0.5
