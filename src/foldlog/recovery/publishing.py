"""What an execution tells an event bus."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Protocol

from foldlog.recovery.models import ExecutionStatus


@dataclass(frozen=True, slots=True)
class ExecutionEvent:
    """A step that started, ended, waits, or was found on record (RECOVERED).

    `execution_time` in seconds, 0 for what did not happen now. `result` is the step's own object
    unless `is_replayed`; `message` is that of the exception of a FAILED step. An event with
    `skip_republish` is not published: that of a step on record, but in REPUBLISH_ALL.
    """

    state_id: str
    address: str
    event_type: str
    execution_status: ExecutionStatus
    result: Any = None
    message: str = ""
    execution_time: float = 0.0
    is_replayed: bool = False
    skip_republish: bool = False


class EventBus(Protocol):
    """Whoever listens to an execution. It is not stored: a resumed execution needs one again."""

    def publish(self, event: ExecutionEvent) -> Awaitable[None] | None:
        """Take an event, or return an awaitable that does. What it raises, the step raises."""
        ...


async def publish(bus: EventBus | None, event: ExecutionEvent) -> None:
    """Tell the bus, if there is one, of what is on record: at most once."""
    if bus is None or event.skip_republish:
        return
    told = bus.publish(event)
    if inspect.isawaitable(told):
        await told
