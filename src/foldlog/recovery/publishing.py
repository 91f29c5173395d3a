"""What an execution tells an event bus."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Protocol

from foldlog.recovery.models import ExecutionStatus
from foldlog_projections.states import Step


@dataclass(frozen=True, slots=True)
class ExecutionEvent:
    """A step that started, ended, waits, or was found on record (RECOVERED).

    `execution_time` in seconds, 0 for what did not happen now. `result` is the step's own object
    unless `is_replayed`; `message` is that of the exception of a FAILED step.
    """

    state_id: str
    address: str
    event_type: str
    execution_status: ExecutionStatus
    result: Any = None
    message: str = ""
    execution_time: float = 0.0
    is_replayed: bool = False


class EventBus(Protocol):
    """Whoever listens to an execution. It is not stored: a resumed execution needs one again."""

    def publish(self, event: ExecutionEvent) -> Awaitable[None] | None:
        """Take an event, or return an awaitable that does. What it raises, the step raises."""
        ...


class Publisher:
    """Publishes the events of one execution, after they are on record: at most once each."""

    def __init__(self, state_id: str, bus: EventBus | None) -> None:
        self._state_id = state_id
        self._bus = bus

    async def publish(
        self,
        address: str,
        event_type: str,
        status: ExecutionStatus,
        *,
        result: Any = None,
        message: str = "",
        seconds: float = 0.0,
        is_replayed: bool = False,
    ) -> None:
        """Tell the bus, if there is one."""
        if self._bus is None:
            return
        told = self._bus.publish(
            ExecutionEvent(
                self._state_id, address, event_type, status, result, message, seconds, is_replayed
            )
        )
        if inspect.isawaitable(told):
            await told

    async def republish(self, step: Step, result: Any) -> None:
        """Tell the bus of a step on record, marked as replayed."""
        await self.publish(
            step.address,
            step.event_type,
            ExecutionStatus.RECOVERED,
            result=result,
            is_replayed=True,
        )
