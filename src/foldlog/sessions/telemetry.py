"""Telemetry of tasks as they begin and end, for metrics, alerts and dashboards.

Nothing of it is stored. StateStore specification 2.11, section "Telemetry Integration".
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, ClassVar, Final, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from foldlog.errors import ConfigurationError
from foldlog.models import TaskStatus, TaskType
from foldlog.store.operation import outside

_log: Final = logging.getLogger("foldlog")

MOST_WAITING: Final = 1000
"""Events that may wait for a slow sink; beyond that they are counted and dropped."""

SINK_SECONDS: Final = 5.0
"""How long a sink may take over an event."""

EventType = Literal[
    "task_spawned",
    "task_completed",
    "task_failed",
    "task_cancelled",
    "task_group_completed",
    "task_group_failed",
]
Outcome = Literal["spawned", "completed", "failed", "cancelled"]

_LEVELS: Final[dict[Outcome, int]] = {
    "spawned": logging.INFO,
    "completed": logging.INFO,
    "cancelled": logging.WARNING,
    "failed": logging.ERROR,
}


class TaskTelemetryEvent(BaseModel):
    """That a task began or ended, or a group did: then `task_id` is the group's.

    Attributes:
        event_type: what happened.
        outcome: how it ended.
        session_id, task_id, parent_task_id, trace_id: the task, its parent and its trace.
        task_type: FOREGROUND or BACKGROUND.
        status: where the task stands.
        mode: "foreground", "subagent" or "job".
        spawn_reason: why it was spawned, in words.
        duration_ms: milliseconds since it was spawned.
        created_at_s: when the event was made, in Unix seconds.
        extra: whatever else there is.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)

    event_type: EventType
    outcome: Outcome
    session_id: str
    task_id: str
    parent_task_id: str | None = None
    trace_id: str | None = None
    task_type: TaskType
    status: TaskStatus
    mode: Literal["foreground", "subagent", "job"] | None = None
    spawn_reason: str | None = None
    duration_ms: float | None = None
    created_at_s: float = Field(default_factory=time.time)
    extra: dict[str, Any] = Field(default_factory=dict)


class TaskTelemetrySink(Protocol):
    """A receiver of telemetry. Its exceptions are logged, and never reach a task."""

    async def emit(self, event: TaskTelemetryEvent) -> None:
        """Receive `event`. A session waits for this call before it makes the next one."""


class NoOpTaskTelemetrySink:
    """A sink that drops every event: the default."""

    async def emit(self, event: TaskTelemetryEvent) -> None:
        """Drop `event`. Raises nothing."""


class LoggingTaskTelemetrySink:
    """A sink that writes one record of a Python logger for each event.

    A record's message is the event's type; its fields are attributes of the record, and `telemetry`
    has them all.

    Args:
        logger: None: "foldlog.tasks".
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("foldlog.tasks")

    async def emit(self, event: TaskTelemetryEvent) -> None:
        """Log `event`: failures as errors, cancellations as warnings, others as information.

        Raises nothing.
        """
        fields = event.model_dump(mode="json")
        brief = {name: fields[name] for name in ("session_id", "task_id", "outcome", "trace_id")}
        self._logger.log(
            _LEVELS[event.outcome], event.event_type, extra={**brief, "telemetry": fields}
        )


class OpenTelemetryTaskTelemetrySink:
    """Telemetry goes to OpenTelemetry: needs the extra `foldlog[otel]`.

    The counter `foldlog.tasks` and the histogram `foldlog.task.duration` (in seconds) have the
    attributes `outcome`, `task_type` and `mode`; their number does not grow with that of tasks. A
    span `foldlog.task` covers each task from its spawning to its end, with its ids.

    Args:
        meter: of OpenTelemetry. None: that of the global provider.
        tracer: of OpenTelemetry. None: that of the global provider.

    Raises:
        ConfigurationError: OpenTelemetry is not installed.
    """

    def __init__(self, *, meter: Any = None, tracer: Any = None) -> None:
        try:
            from opentelemetry import metrics, trace
        except ImportError as error:
            raise ConfigurationError(
                "OpenTelemetry is not installed: pip install 'foldlog[otel]'"
            ) from error
        meter = meter or metrics.get_meter("foldlog.sessions")
        self._tracer = tracer or trace.get_tracer("foldlog.sessions")
        self._error = trace.Status(trace.StatusCode.ERROR)
        self._count = meter.create_counter("foldlog.tasks", unit="{task}")
        self._duration = meter.create_histogram("foldlog.task.duration", unit="s")

    async def emit(self, event: TaskTelemetryEvent) -> None:
        """Count `event`, and begin or end its span. Raises nothing."""
        attributes = {
            "event": event.event_type,
            "outcome": event.outcome,
            "task_type": event.task_type.value,
            "mode": event.mode or "",
        }
        self._count.add(1, attributes)
        if event.duration_ms is None:
            return
        self._duration.record(event.duration_ms / 1000, attributes)
        end = int(event.created_at_s * 1e9)
        ids = {
            "session_id": event.session_id,
            "task_id": event.task_id,
            "parent_task_id": event.parent_task_id or "",
            "foldlog.trace_id": event.trace_id or "",
        }
        span = self._tracer.start_span(
            "foldlog.task",
            start_time=end - int(event.duration_ms * 1e6),
            attributes={**attributes, **ids},
        )
        if event.outcome == "failed":
            span.set_status(self._error)
        span.end(end_time=end)


class Emitter:
    """Hands events to a sink, one after the other, in a task of its own. Lives until `close`.

    `failures` counts events for which the sink raised or took too long, each with a line in the
    log "foldlog"; `dropped` counts events that came while too many waited.
    """

    def __init__(self, sink: TaskTelemetrySink | None, *, timeout: float = SINK_SECONDS) -> None:
        self._sink = sink or NoOpTaskTelemetrySink()
        self._timeout = timeout
        self._waiting: deque[TaskTelemetryEvent] = deque()
        self._task: asyncio.Task[None] | None = None
        self.failures: int = 0
        self.dropped: int = 0

    def emit(self, events: Iterable[TaskTelemetryEvent]) -> None:
        """Have events handed over. Returns at once and raises nothing."""
        if isinstance(self._sink, NoOpTaskTelemetrySink):
            return
        for event in events:
            if len(self._waiting) < MOST_WAITING:
                self._waiting.append(event)
            else:
                self.dropped += 1
                _log.warning(
                    "telemetry_dropped", extra={"event": "telemetry_dropped", "of": event.task_id}
                )
        if self._waiting and (self._task is None or self._task.done()):
            # Outside: what a sink saves is not part of the call that emits the event.
            self._task = asyncio.create_task(
                self._drain(), name="foldlog telemetry", context=outside()
            )

    async def flush(self) -> None:
        """Wait until the sink has had everything."""
        while self._task is not None and not self._task.done():
            # Not the task itself: a cancelled waiter must not cancel it.
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Let the sink have what waits, each event within its time. Idempotent."""
        try:
            await self.flush()
        finally:
            if self._task is not None and not self._task.done():
                self._task.cancel()
                await asyncio.wait([self._task])

    async def _drain(self) -> None:
        while self._waiting:
            event = self._waiting.popleft()
            try:
                async with asyncio.timeout(self._timeout):
                    await self._sink.emit(event)
            except Exception as error:  # noqa: BLE001 - a sink is anybody's code
                self._failed(event, error)
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                self._failed(event, error)  # the sink was cancelled, not this task

    def _failed(self, event: TaskTelemetryEvent, error: BaseException) -> None:
        self.failures += 1
        fields = {
            "event": "telemetry_failed",
            "session_id": event.session_id,
            "task_id": event.task_id,
            "telemetry_event": event.event_type,
            "exception": repr(error),
        }
        _log.error("telemetry_failed", exc_info=error, extra=fields)
