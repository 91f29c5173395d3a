"""What envelopes of each type hold: version 1 of every payload schema.

Structs are written as MessagePack maps, so that a later version may add fields. `Raw` fields hold
what a user supplied, encoded by `foldlog.codec`; they are decoded when somebody reads them.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, TypeVar

import msgspec

from foldlog import codec
from foldlog.errors import PayloadError

T = TypeVar("T", bound=msgspec.Struct)

_WHERE: Final = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)


class EventSaved(msgspec.Struct, frozen=True):
    """`event.saved`: a StoredEvent."""

    trace_id: str | None
    ts: float
    kind: str
    node_name: str | None
    node_id: str | None
    payload: msgspec.Raw


class BindingSaved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`binding.saved`: a RemoteBinding."""

    trace_id: str
    context_id: str | None
    task_id: str
    agent_url: str
    router_session_id: str | None = None
    remote_skill: str | None = None
    tenant_id: str | None = None
    user_id: str | None = None
    last_remote_task_id: str | None = None
    is_terminal: bool = False
    metadata: msgspec.Raw = msgspec.Raw(b"\x80")


class PauseSaved(msgspec.Struct, frozen=True):
    """`pause.saved`: a planner's state. It expires `ttl` seconds after the log recorded it."""

    token: str
    ttl: float
    payload: msgspec.Raw


class TaskSaved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`task.saved`: a TaskState. Times are ISO 8601."""

    task_id: str
    session_id: str
    status: str
    task_type: str
    priority: int
    context_snapshot: msgspec.Raw
    created_at: str
    updated_at: str
    trace_id: str | None = None
    error: str | None = None
    description: str | None = None
    result: msgspec.Raw = msgspec.Raw(b"\xc0")
    progress: msgspec.Raw = msgspec.Raw(b"\xc0")


class UpdateSaved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`update.saved`: a StateUpdate."""

    session_id: str
    task_id: str
    update_id: str
    update_type: str
    content: msgspec.Raw
    created_at: str
    trace_id: str | None = None
    step_index: int | None = None
    total_steps: int | None = None


class SteeringSaved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`steering.saved`: a SteeringEvent, sanitised."""

    session_id: str
    task_id: str
    event_id: str
    event_type: str
    payload: msgspec.Raw
    source: str
    created_at: str
    trace_id: str | None = None


class TraceSaved(msgspec.Struct, frozen=True):
    """`trace.saved`: a trajectory of this trace was saved; `content` is its digest."""

    trace_id: str
    content: str


class PlannerEventSaved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`planner.saved`: a PlannerEvent."""

    event_type: str
    ts: float
    trajectory_step: int = 0
    thought: str | None = None
    node_name: str | None = None
    latency_ms: float | None = None
    token_estimate: int | None = None
    error: str | None = None
    extra: msgspec.Raw = msgspec.Raw(b"\x80")


_encoder = msgspec.msgpack.Encoder()
_decoders: dict[type, msgspec.msgpack.Decoder[Any]] = {}


def dump(payload: msgspec.Struct) -> bytes:
    """Encode a payload, having made sure that it will decode.

    Raises:
        PayloadError: a field has another type than its schema says, or is no valid Unicode.
    """
    try:
        raw = _encoder.encode(payload)
        _decoder(type(payload)).decode(raw)
    except UnicodeEncodeError:
        raise PayloadError(_first_bad_text(payload), "a lone surrogate") from None
    except (msgspec.MsgspecError, TypeError, OverflowError) as error:
        found = _WHERE.match(str(error))
        path = (found["path"] if found else None) or type(payload).__name__
        raise PayloadError(path, found["what"] if found else str(error)) from None
    return raw


def load(type_: type[T], raw: bytes) -> T:
    """Decode a payload.

    Raises:
        msgspec.ValidationError: it is not of that schema.
    """
    decoded: T = _decoder(type_).decode(raw)
    return decoded


def finite(value: float, field: str) -> float:
    """Return a time as a float.

    Raises:
        PayloadError: it is not a number that can be ordered.
    """
    seconds = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            seconds = float(value)
        except OverflowError:
            seconds = math.nan  # an integer beyond all time
    if math.isnan(seconds):
        raise PayloadError(field, f"{value!r:.80} is not a time in seconds")
    return seconds


def time_text(value: dt.datetime, field: str) -> str:
    """Return a datetime as ISO 8601.

    Raises:
        PayloadError: it is no datetime.
    """
    if not isinstance(value, dt.datetime):
        raise PayloadError(field, f"{value!r:.80} is not a datetime")
    return value.isoformat()


def enum_text(value: Enum | str, members: type[Enum], field: str) -> str:
    """Return the text of a string enum's member, or of its bare value.

    Raises:
        PayloadError: `members` has no such value.
    """
    text = value.value if isinstance(value, Enum) else value
    try:
        return str(members(text).value)
    except ValueError:
        raise PayloadError(field, f"{value!r:.80} is no {members.__name__}") from None


def mapping(value: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return a mapping as a dict.

    Raises:
        PayloadError: it is none.
    """
    if not isinstance(value, Mapping):
        raise PayloadError(field, f"{value!r:.80} is not a mapping")
    return dict(value)


def raw(value: object, path: str) -> msgspec.Raw:
    """Encode what a user supplied.

    Raises:
        PayloadError: it cannot be held exactly; `.path` begins with `path`.
    """
    return msgspec.Raw(codec.encode(value, path))


def _decoder(type_: type) -> msgspec.msgpack.Decoder[Any]:
    decoder = _decoders.get(type_)
    if decoder is None:
        decoder = _decoders[type_] = msgspec.msgpack.Decoder(type_)
    return decoder


def _first_bad_text(payload: msgspec.Struct) -> str:
    for field in payload.__struct_fields__:
        value = getattr(payload, field)
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                return field
    return type(payload).__name__
