"""What tells others of tasks as they begin and end: for metrics, alerts and dashboards.

What is told here is not kept: the log is. StateStore specification 2.11, section "Telemetry
Integration".
"""

from __future__ import annotations

import logging
import time
from typing import Any, Final, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from foldlog.errors import ConfigurationError
from foldlog.models import TaskStatus, TaskType

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

    `duration_ms` is the time since it was spawned. `created_at_s` in Unix seconds.
    """

    model_config = ConfigDict(defer_build=True)

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
    """Where telemetry goes. What it raises is logged; a task never hears of it."""

    async def emit(self, event: TaskTelemetryEvent) -> None:
        """Take an event. A session waits for this one before it hands over the next."""
        ...


class NoOpTaskTelemetrySink:
    """Telemetry goes nowhere: the default."""

    async def emit(self, event: TaskTelemetryEvent) -> None:
        """Do nothing."""


class LoggingTaskTelemetrySink:
    """Telemetry goes to a Python logger, by default "foldlog.tasks": one record an event.

    A record's message is the event's type; its fields are attributes of the record, `telemetry`
    has them all.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("foldlog.tasks")

    async def emit(self, event: TaskTelemetryEvent) -> None:
        """Log it: failures as errors, cancellations as warnings, the rest as information."""
        fields = event.model_dump(mode="json")
        brief = {name: fields[name] for name in ("session_id", "task_id", "outcome", "trace_id")}
        self._logger.log(
            _LEVELS[event.outcome], event.event_type, extra={**brief, "telemetry": fields}
        )


class OpenTelemetryTaskTelemetrySink:
    """Telemetry goes to OpenTelemetry: needs the extra `foldlog[otel]`.

    The counter `foldlog.tasks` and the histogram `foldlog.task.duration` (in seconds) have the
    attributes `outcome`, `task_type` and `mode`, none of which grows with the number of tasks. A
    span `foldlog.task` covers each task from its spawning to its end, with its ids.

    Args:
        meter, tracer: of OpenTelemetry. None: those of the global providers.

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
        """Record it."""
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
