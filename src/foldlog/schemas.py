"""What the payloads of known event kinds look like.

Kinds are an open set (StateStore specification 2.11, section "Event Types"): a kind without a
schema always passes, and so does a field that its schema does not name. A store opened with
`validate="warn"` or `validate="strict"` checks what `save_event` is given. To add your own kinds:

    schemas = foldlog.schemas.SCHEMAS | {"invoice.paid": InvoicePaid}
    store = foldlog.memory_store(validate="strict", schemas=schemas)
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr, ValidationError

from foldlog.models import (
    SteeringEventType,
    StoredEvent,
    TaskContextSnapshot,
    TaskStatus,
    TaskType,
    UpdateType,
)

__all__ = [
    "SCHEMAS",
    "Problem",
    "Schemas",
    "Validate",
    "problems",
]

Validate = Literal["off", "warn", "strict"]
Schemas: TypeAlias = Mapping[str, type[BaseModel]]


class Problem(NamedTuple):
    """One thing that a payload's schema forbids.

    Attributes:
        path: leads to it, as in `payload.flow_error.code`.
        reason: what is wrong.
    """

    path: str
    reason: str


class _Flow(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="allow", defer_build=True)


class _Session(BaseModel):
    # Strict in text and numbers alone: times may be text.
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", defer_build=True)

    session_id: StrictStr
    task_id: StrictStr
    trace_id: StrictStr | None = None
    created_at: datetime


class FlowPayload(_Flow):
    """What events of a running flow may hold. Times in milliseconds."""

    ts: float | None = None
    event: str | None = None
    node_name: str | None = None
    node_id: str | None = None
    trace_id: str | None = None
    latency_ms: float | None = None
    q_depth_in: int | None = None
    q_depth_out: int | None = None
    q_depth_total: int | None = None
    outgoing: int | None = None
    queue_maxsize: int | None = None
    attempt: int | None = None
    trace_pending: int | None = None
    trace_inflight: int | None = None
    trace_cancelled: bool | None = None


class FlowError(_Flow):
    """Why a node failed."""

    code: str | None = None
    message: str | None = None


class FailurePayload(FlowPayload):
    """An error, or another attempt after `sleep_s` seconds."""

    exception: str | None = None
    flow_error: FlowError | None = None
    sleep_s: float | None = None


class DeadlinePayload(FlowPayload):
    """Work that was skipped: its deadline, Unix seconds, had passed."""

    deadline_s: float | None = None


class CancelPayload(FlowPayload):
    """A trace's cancellation, and how many messages it found."""

    pending: int | None = None


class RemotePayload(FlowPayload):
    """A call of a remote worker. Sizes in bytes."""

    remote_skill: str | None = None
    remote_transport: str | None = None
    remote_streaming: bool | None = None
    remote_agent_url: str | None = None
    remote_context_id: str | None = None
    remote_task_id: str | None = None
    remote_status: str | None = None
    remote_error: str | None = None
    remote_cancel_reason: str | None = None
    remote_request_bytes: int | None = None
    remote_response_bytes: int | None = None
    remote_stream_events: int | None = None
    remote_stream_seq: int | None = None
    remote_chunk_bytes: int | None = None
    remote_chunk_done: bool | None = None
    remote_chunk_meta_keys: list[str] | None = None


class SessionTaskPayload(_Session):
    """A task in the audit trail of a session. Times are datetimes or ISO 8601, here as below."""

    status: TaskStatus
    task_type: TaskType
    priority: StrictInt
    context_snapshot: TaskContextSnapshot
    result: Any = None
    error: StrictStr | None = None
    description: StrictStr | None = None
    progress: dict[str, Any] | None = None
    updated_at: datetime


class SessionUpdatePayload(_Session):
    """An update in the audit trail of a session."""

    update_id: StrictStr
    update_type: UpdateType
    content: Any
    step_index: StrictInt | None = None
    total_steps: StrictInt | None = None


class SessionSteeringPayload(_Session):
    """A steering event in the audit trail of a session."""

    event_id: StrictStr
    event_type: SteeringEventType
    payload: dict[str, Any]
    source: StrictStr


SCHEMAS: Final[dict[str, type[BaseModel]]] = {
    "node_start": FlowPayload,
    "node_success": FlowPayload,
    "node_timeout": FailurePayload,
    "node_retry": FailurePayload,
    "node_error": FailurePayload,
    "node_failed": FailurePayload,
    "node_cancelled": FlowPayload,
    "node_trace_cancelled": FlowPayload,
    "deadline_skip": DeadlinePayload,
    "trace_cancel_start": CancelPayload,
    "trace_cancel_finish": CancelPayload,
    "trace_cancel_drop": CancelPayload,
    "remote_call_start": RemotePayload,
    "remote_call_success": RemotePayload,
    "remote_call_error": RemotePayload,
    "remote_call_cancelled": RemotePayload,
    "remote_cancel_error": RemotePayload,
    "remote_stream_event": RemotePayload,
    "session.task": SessionTaskPayload,
    "session.update": SessionUpdatePayload,
    "session.steering": SessionSteeringPayload,
}
"""PenguiFlow's core, remote and session kinds. Copy it to add your own; do not change it."""


def problems(event: StoredEvent, schemas: Schemas = SCHEMAS) -> list[Problem]:
    """Return what the schema of an event's kind forbids in its payload; [] without a schema.

    Args:
        event: the event.
        schemas: the schemas, by kind.
    """
    schema = schemas.get(event.kind)
    if schema is None:
        return []
    try:
        schema.model_validate(dict(event.payload))
    except ValidationError as error:
        return [Problem(_path(each["loc"]), each["msg"]) for each in error.errors()]
    return []


def _path(location: tuple[int | str, ...]) -> str:
    return "payload" + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in location)
