"""Telemetry that is handed over and forgotten: it never holds a task up, and fails by itself."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import Final

from foldlog.sessions.telemetry import (
    NoOpTaskTelemetrySink,
    TaskTelemetryEvent,
    TaskTelemetrySink,
)
from foldlog.store.operation import outside

MOST_WAITING: Final = 1000
"""Events that may wait for a slow sink; beyond that they are counted and dropped."""

SINK_SECONDS: Final = 5.0
"""How long a sink may take over an event."""

_log: Final = logging.getLogger("foldlog")


class Emitter:
    """Hands events to a sink, one after the other, in a task of its own. Lives until `close`.

    `failures` counts events that the sink raised for or did not take in time, each with a line in
    the log "foldlog"; `dropped` those that found too many waiting.
    """

    def __init__(self, sink: TaskTelemetrySink | None, *, timeout: float = SINK_SECONDS) -> None:
        self._sink = sink or NoOpTaskTelemetrySink()
        self._timeout = timeout
        self._waiting: deque[TaskTelemetryEvent] = deque()
        self._task: asyncio.Task[None] | None = None
        self.failures = 0
        self.dropped = 0

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
            # Outside: what a sink saves is not part of the call that it is told of.
            self._task = asyncio.create_task(
                self._drain(), name="foldlog telemetry", context=outside()
            )

    async def flush(self) -> None:
        """Wait until the sink has had everything."""
        while self._task is not None and not self._task.done():
            # Not the task itself: who waits may be cancelled, and the task goes on.
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
                self._failed(event, error)  # the sink's own business, not this task's

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
