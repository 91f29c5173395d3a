"""Telemetry: what sinks are told, and that none of them can hold a task up or bring it down."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog import TaskType
from foldlog.sessions import (
    LoggingTaskTelemetrySink,
    NoOpTaskTelemetrySink,
    OpenTelemetryTaskTelemetrySink,
    Session,
    TaskTelemetryEvent,
)
from foldlog.sessions.telemetry import MOST_WAITING, Emitter
from tests.sessions.support import running
from tests.support.build import update
from tests.support.flaky import spooling


class Heard:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[TaskTelemetryEvent] = []

    async def emit(self, event: TaskTelemetryEvent) -> None:
        self.events.append(event)


def event(task_id: str = "task", **fields: Any) -> TaskTelemetryEvent:
    values: dict[str, Any] = {
        "event_type": "task_completed",
        "outcome": "completed",
        "task_type": TaskType.BACKGROUND,
        "status": foldlog.TaskStatus.COMPLETE,
        "duration_ms": 1500.0,
        "created_at_s": 100.0,
    }
    return TaskTelemetryEvent(session_id="s", task_id=task_id, **(values | fields))


async def lived(sink: Any) -> Session:
    """A session in which everything has happened that is told; closed."""
    store = foldlog.memory_store()
    async with await store.session("s", telemetry=sink) as session:
        await session.create_group("g", group_id="g")
        await running(session, "front", trace_id="trace")
        for task_id in ("good", "bad"):
            await running(
                session, task_id, task_type=TaskType.BACKGROUND, group_id="g", spawn_reason="ask"
            )
        await session.seal_group("g")
        await session.complete_task("good")
        await session.fail_task("bad", "broken")
        await session.cancel_task("front", reason="enough")
    return session


async def test_a_sink_is_told_of_every_beginning_and_end_in_order() -> None:
    sink = Heard()
    await lived(sink)
    assert [(each.event_type, each.task_id) for each in sink.events] == [
        ("task_spawned", "front"),
        ("task_spawned", "good"),
        ("task_spawned", "bad"),
        ("task_completed", "good"),
        ("task_failed", "bad"),
        ("task_group_failed", "g"),
        ("task_cancelled", "front"),
    ]
    told = {(each.event_type, each.task_id): each for each in sink.events}
    good, bad = told["task_completed", "good"], told["task_failed", "bad"]
    assert (good.outcome, good.mode, good.parent_task_id) == ("completed", "subagent", "front")
    assert (good.spawn_reason, good.status) == ("ask", "COMPLETE")
    assert good.duration_ms is not None
    assert good.duration_ms >= 0
    assert bad.extra == {"reason": "broken", "error": "broken"}
    assert told["task_group_failed", "g"].extra["failed_count"] == 1
    cancelled = told["task_cancelled", "front"]
    assert (cancelled.extra, cancelled.trace_id) == ({"reason": "enough"}, "trace")


async def test_a_job_is_told_as_one_from_its_beginning_to_its_end() -> None:
    sink = Heard()
    async with (
        foldlog.memory_store() as store,
        store.session("s", telemetry=sink) as session,
        store.session("s", telemetry=sink) as other,
    ):
        await session.spawn_task(task_id="job", task_type=TaskType.BACKGROUND, mode="job")
        await session.start_task("job")
        await session.report("job", 1, progress={"n": 1})
        await other.complete_task("job")
    assert [each.mode for each in sink.events] == ["job", "job"]


async def test_a_sink_that_raises_fails_alone_and_is_heard_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken:
        async def emit(self, event: TaskTelemetryEvent) -> None:
            raise RuntimeError(f"no room for {event.task_id}")

    session = await lived(Broken())
    assert session.telemetry.failures == 7
    assert (await session.refresh()).task("good").status == "COMPLETE"
    lines = [record for record in caplog.records if record.message == "telemetry_failed"]
    assert len(lines) == 7
    assert all(record.exc_info and "no room" in str(record.exc_info[1]) for record in lines)


async def test_a_sink_that_gives_up_by_itself_fails_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Cancelled:
        async def emit(self, event: TaskTelemetryEvent) -> None:
            raise asyncio.CancelledError

    session = await lived(Cancelled())
    assert session.telemetry.failures == 7


async def test_a_sink_that_hangs_holds_nobody_up() -> None:
    hung = asyncio.Event()

    class Hangs:
        async def emit(self, event: TaskTelemetryEvent) -> None:
            await hung.wait()

    emitter = Emitter(Hangs(), timeout=0)
    emitter.emit([event()])
    await emitter.close()
    assert emitter.failures == 1


async def test_what_waits_for_a_slow_sink_has_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    sink = Heard()
    emitter = Emitter(sink)
    emitter.emit(event(str(number)) for number in range(MOST_WAITING + 3))
    await emitter.close()
    assert (len(sink.events), emitter.dropped) == (MOST_WAITING, 3)
    assert sum(record.message == "telemetry_dropped" for record in caplog.records) == 3


async def test_who_waits_for_a_sink_may_be_cancelled() -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    class Slow:
        async def emit(self, event: TaskTelemetryEvent) -> None:
            entered.set()
            await release.wait()

    emitter = Emitter(Slow())
    emitter.emit([event()])
    closing = asyncio.create_task(emitter.close())
    await entered.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert emitter.failures == 0, "its own task was cancelled, not the sink at fault"


async def test_no_sink_costs_no_task() -> None:
    for sink in (None, NoOpTaskTelemetrySink()):
        before = asyncio.all_tasks()
        emitter = Emitter(sink)
        emitter.emit([event()])
        assert asyncio.all_tasks() == before
        await emitter.close()


async def test_a_logger_has_a_record_for_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sink = LoggingTaskTelemetrySink()
    await sink.emit(event())
    await sink.emit(event(event_type="task_failed", outcome="failed", extra={"error": "broken"}))
    done, failed = caplog.records
    assert (done.name, done.message, done.levelno) == (
        "foldlog.tasks",
        "task_completed",
        logging.INFO,
    )
    assert (failed.levelno, vars(failed)["telemetry"]["extra"]) == (
        logging.ERROR,
        {"error": "broken"},
    )


async def test_a_logger_of_the_callers_is_used(caplog: pytest.LogCaptureFixture) -> None:
    await LoggingTaskTelemetrySink(logging.getLogger("mine")).emit(
        event(outcome="cancelled", event_type="task_cancelled")
    )
    [record] = caplog.records
    assert (record.name, record.levelno) == ("mine", logging.WARNING)


async def test_opentelemetry_has_a_counter_a_histogram_and_a_span_for_each_task() -> None:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    reader, exporter = InMemoryMetricReader(), InMemorySpanExporter()
    meters, tracers = MeterProvider([reader]), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    sink = OpenTelemetryTaskTelemetrySink(
        meter=meters.get_meter("test"), tracer=tracers.get_tracer("test")
    )
    await sink.emit(event(event_type="task_spawned", outcome="spawned", duration_ms=None))
    await sink.emit(event(event_type="task_failed", outcome="failed"))

    data = reader.get_metrics_data()
    assert data is not None
    metrics = {
        metric.name: list(metric.data.data_points)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    outcomes = {point.attributes["outcome"]: point.value for point in metrics["foldlog.tasks"]}
    assert outcomes == {"spawned": 1, "failed": 1}
    [duration] = metrics["foldlog.task.duration"]
    assert (duration.sum, duration.count) == (1.5, 1)
    assert "task_id" not in duration.attributes
    [span] = exporter.get_finished_spans()
    assert (span.name, span.attributes["task_id"]) == ("foldlog.task", "task")
    assert (span.start_time, span.end_time) == (98_500_000_000, 100_000_000_000)
    assert not span.status.is_ok
    meters.shutdown()
    tracers.shutdown()


def test_without_opentelemetry_its_sink_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)
    with pytest.raises(foldlog.ConfigurationError, match=r"foldlog\[otel\]"):
        OpenTelemetryTaskTelemetrySink()


async def test_what_a_sink_saves_degrades_as_any_save(tmp_path: Path) -> None:
    async with spooling(tmp_path) as process:
        told: list[None] = []

        class Saving:
            async def emit(self, event: TaskTelemetryEvent) -> None:
                process.log.state = "away"
                told.append(await process.store.save_update(update("heard")))

        async with process.store.session("s", telemetry=Saving()) as session:
            await session.spawn_task(task_id="task")
            await session.telemetry.flush()
        assert told == [None]
        assert session.telemetry.failures == 0
        await process.drained()
        assert [each.update_id for each in await process.store.list_updates("session")] == ["heard"]
