"""Steering: what a user, a system or another agent tells a running task."""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from foldlog.models._clock import utc_now


class SteeringEventType(StrEnum):
    """The kinds of intervention; `foldlog.steering` holds what each one's payload needs."""

    INJECT_CONTEXT = "INJECT_CONTEXT"
    REDIRECT = "REDIRECT"
    CANCEL = "CANCEL"
    PRIORITIZE = "PRIORITIZE"
    PAUSE = "PAUSE"
    RESUME = "RESUME"
    APPROVE = "APPROVE"
    REJECT = "REJECT"
    USER_MESSAGE = "USER_MESSAGE"


class SteeringEvent(BaseModel):
    """One intervention on one task.

    Attributes:
        session_id, task_id: the task.
        event_id: the idempotency key: saving the same again has no effect.
        event_type: what is wanted; it says which fields `payload` needs.
        payload: untrusted input; stores save its sanitised form.
        trace_id: the trace, if there is one.
        source: "user", "system" or "agent".
        created_at: when it was made.
    """

    # Validators are built on first use: importing foldlog stays cheap.
    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)

    session_id: str
    task_id: str
    event_id: str = Field(default_factory=lambda: uuid.uuid4().hex)
    event_type: SteeringEventType
    payload: dict[str, Any] = Field(default_factory=dict)
    trace_id: str | None = None
    source: str = "user"
    created_at: datetime = Field(default_factory=utc_now)

    def to_injection(self) -> str:
        """Return the event as JSON text for a model's prompt, under one `"steering"` key.

        Values that JSON lacks are given as their `str()`. An event read from a store always
        converts.

        Raises:
            ValueError: the payload contains itself.
        """
        return json.dumps(
            {
                "steering": {
                    "event_id": self.event_id,
                    "task_id": self.task_id,
                    "event_type": self.event_type.value,
                    "payload": self.payload,
                    "created_at": self.created_at.isoformat(),
                }
            },
            ensure_ascii=False,
            default=str,
        )
