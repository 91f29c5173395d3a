"""What envelopes of each type hold: version 1 of every payload schema.

Structs are written as MessagePack maps, so that a later version may add fields. `Any` fields hold
what a user supplied, exactly: see `foldlog.codec`.
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
    payload: Any


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
    metadata: Any = {}


class PauseSaved(msgspec.Struct, frozen=True):
    """`pause.saved`: a planner's state. It expires `ttl` seconds after the log recorded it."""

    token: str
    ttl: float
    payload: Any


class TaskSaved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`task.saved`: a TaskState. Times are ISO 8601."""

    task_id: str
    session_id: str
    status: str
    task_type: str
    priority: int
    context_snapshot: Any
    created_at: str
    updated_at: str
    trace_id: str | None = None
    error: str | None = None
    description: str | None = None
    result: Any = None
    progress: Any = None


class UpdateSaved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`update.saved`: a StateUpdate."""

    session_id: str
    task_id: str
    update_id: str
    update_type: str
    content: Any
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
    payload: Any
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
    extra: Any = {}


_encoder = msgspec.msgpack.Encoder()
_json_encoder = msgspec.json.Encoder()
_decoders: dict[type, msgspec.msgpack.Decoder[Any]] = {}


def dump(payload: msgspec.Struct, *held: str) -> bytes:
    """Encode a payload; `held` are the fields that a user filled with values of any kind.

    Raises:
        PayloadError: a field has another type than its schema says, is no valid Unicode, or holds
            what cannot be held exactly. Its `.path` begins with the field's name.
    """
    return dump_native(payload, *held)[0]


def dump_native(payload: T, *held: str) -> tuple[bytes, T]:
    """As `dump`; also return the payload with the native form of what a user supplied."""
    # One encoding and one decoding prove nearly every payload: see `codec.is_proven`.
    try:
        raw = _encoder.encode(payload)
        decoded = _decoder(type(payload)).decode(raw)
        for field in held:
            if not codec.is_proven(raw, getattr(payload, field), getattr(decoded, field)):
                break
        else:
            return raw, payload
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        pass  # what follows says what and where
    natives = {field: codec.to_native(getattr(payload, field), field) for field in held}
    payload = msgspec.structs.replace(payload, **natives)
    try:
        raw = _encoder.encode(payload)
        _decoder(type(payload)).decode(raw)
    except UnicodeEncodeError:
        raise PayloadError(_first_bad_text(payload), "a lone surrogate") from None
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        found = _WHERE.match(str(error))
        path = (found["path"] if found else None) or type(payload).__name__
        raise PayloadError(path, found["what"] if found else str(error)) from None
    return raw, payload


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
    if type(value) is dt.datetime and value.tzinfo is dt.UTC:
        # The same text, at a fifth of the cost.
        return _json_encoder.encode(value)[1:-2].decode() + "+00:00"
    return value.isoformat()


def enum_text(value: Enum | str, members: type[Enum], field: str) -> str:
    """Return the text of a string enum's member, or of its bare value.

    Raises:
        PayloadError: `members` has no such value.
    """
    if value.__class__ is members:
        return str(value._value_)
    text = value.value if isinstance(value, Enum) else value
    try:
        return str(members(text).value)
    except ValueError:
        raise PayloadError(field, f"{value!r:.80} is no {members.__name__}") from None


def mapping(value: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return a mapping as a dict; a dict as it is.

    Raises:
        PayloadError: it is none.
    """
    if value.__class__ is dict:
        return value
    if not isinstance(value, Mapping):
        raise PayloadError(field, f"{value!r:.80} is not a mapping")
    return dict(value)


def _decoder(type_: type) -> msgspec.msgpack.Decoder[Any]:
    decoder = _decoders.get(type_)
    if decoder is None:
        decoder = _decoders[type_] = codec.decoder(type_)
    return decoder


class OfTask(msgspec.Struct, frozen=True):
    """What every payload about a task begins with; the rest is left encoded."""

    task_id: str


def _first_bad_text(payload: msgspec.Struct) -> str:
    for field in payload.__struct_fields__:
        value = getattr(payload, field)
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                return field
    return type(payload).__name__
