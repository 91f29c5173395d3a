"""Snapshots as the log holds them, and back. No I/O."""

from __future__ import annotations

import datetime as dt
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from foldlog import codec
from foldlog.envelope import Draft, draft, upsert_id
from foldlog.errors import LogCorrupt, PayloadError, RedactionFailed
from foldlog.recovery.models import ExecutionStatus, StateSnapshot
from foldlog.store.payloads import drafting, dump
from foldlog.store.redaction import Redaction
from foldlog.subjects import checked_id
from foldlog.values import as_plain
from foldlog_projections import states
from foldlog_projections.delta import cut, difference
from foldlog_projections.statelist import Listed
from foldlog_projections.states import Saved, State, Step

Value = dict[str, Any]
"""A snapshot in MessagePack's types: what `State.value` is."""

_STATUS_OF_PHASE: Final = {
    "intended": ExecutionStatus.STARTED,
    "done": ExecutionStatus.COMPLETED,
    "failed": ExecutionStatus.FAILED,
    "waiting": ExecutionStatus.AWAITING,
    "retracted": ExecutionStatus.RETRACTED,
    "unrecorded": ExecutionStatus.STARTED,
}

_PIECE_BYTES: Final = 128 * 1024
"""So that a piece fits into a message of any server, and several into a record."""

_native: Final = msgspec.msgpack.Decoder()
_encode: Final = msgspec.msgpack.Encoder().encode


@drafting("snapshot")
def valued(snapshot: Any, redaction: Redaction, method: str) -> Value:
    """Return a snapshot, of this library or another, as a redacted value.

    Raises:
        PayloadError: it has another shape, or a part cannot be held. InvalidId: the id is empty.
        RedactionFailed: the hook failed, or returned another shape.
    """
    if not isinstance(snapshot, StateSnapshot):
        snapshot = _adopted(as_plain(snapshot, "snapshot"))
    checked_id(snapshot.state_id, "state_id")
    dumped = snapshot.model_dump(warnings=False)
    if redaction:
        dumped = _redacted(dumped, redaction, method)
    value: Value = native(dumped, "snapshot")
    try:
        _adopted(value)  # what could not be read again is not saved
    except PayloadError:
        if not redaction:
            raise
        # Without its cause, which quotes the snapshot.
        raise RedactionFailed(states.SAVED, method, "what it left is no snapshot") from None
    return value


def _adopted(data: object) -> StateSnapshot:
    try:
        return StateSnapshot.model_validate(data)
    except ValidationError as error:
        raise PayloadError("snapshot", str(error)) from error


def _redacted(dumped: Value, redaction: Redaction, method: str) -> Value:
    metadata = dumped["metadata"]
    about = {name: dumped[name] for name in ("state_id", "status", "version")}
    about |= {name: metadata[name] for name in ("pipeline_name", "parent_state_id")}
    given = {name: metadata[name] for name in ("tags", "description", "custom")}
    given["execution_state"] = dumped["execution_state"]
    found = dict(redaction.alike(method, states.SAVED, about, given))
    execution_state = found.pop("execution_state")
    known = {name: dumped[name] for name in StateSnapshot.model_fields}  # not of a subclass
    return {**known, "metadata": {**metadata, **found}, "execution_state": execution_state}


def native(value: Any, path: str) -> Any:
    """Return a value in MessagePack's types. Raises PayloadError for what cannot be held."""
    return _native.decode(codec.encode(value, path))


def saving(state: State, value: Value) -> list[Draft]:
    """The drafts that make `value` the snapshot of a state, without the history of its steps."""
    if state.epoch:
        value = _without_steps(state, value)
    delta = difference(state.value, value) or [1, {}, []]
    encoded = _encode(delta)
    parts = [delta] if len(encoded) <= _PIECE_BYTES else cut(encoded, _PIECE_BYTES)
    save = secrets.token_hex(8) if len(parts) > 1 else ""
    ts = _seconds(value["updated_at"])
    drafts = []
    for number, part in enumerate(parts, 1):
        body = dump(Saved(part, save, partial=number < len(parts)))
        drafts.append(draft(states.SAVED, body, id=upsert_id(body), ts=ts))
    return drafts


def listing(state: State, value: Value) -> Listed | None:
    """The list entry of a state with that snapshot; None if it is unchanged."""
    new = _listed(value)
    return new if state.value is None or _listed(state.value) != new else None


def restored(state_id: str, state: State) -> StateSnapshot | None:
    """Return the snapshot of a state with the history of its steps, or None. Raises LogCorrupt."""
    if state.value is None:
        return None
    try:
        snapshot = StateSnapshot.model_validate(codec.decode(_encode(state.value)))
        return with_steps(snapshot, state.steps) if state.epoch else snapshot
    except (LookupError, TypeError, ValueError, msgspec.MsgspecError) as fault:
        raise LogCorrupt(states.SAVED, 0, f"state {state_id!r:.80}: {fault}") from fault


def with_steps(snapshot: StateSnapshot, steps: Mapping[str, Step]) -> StateSnapshot:
    """Return a snapshot with the history of its steps, and their artifacts."""
    snapshot.execution_state["history"] = {"events": [event_of(each) for each in steps.values()]}
    snapshot.artifact_refs |= _artifacts_of(steps)
    return snapshot


def artifacts_of(state: State) -> set[str]:
    """The ids of all artifacts that a state refers to."""
    refs = state.value.get("artifact_refs", {}) if state.value else {}
    return {*refs.values(), *_artifacts_of(state.steps).values()}


def event_of(step: Step) -> dict[str, Any]:
    """A step as an event of a snapshot's history. Times are ISO 8601, durations in seconds."""
    event: dict[str, Any] = {
        "address": step.address,
        "event_type": step.event_type,
        "execution_status": _STATUS_OF_PHASE[step.phase].value,
        "attempt": step.attempt,
        "started_at": dt.datetime.fromtimestamp(step.ts, dt.UTC).isoformat(),
    }
    if step.phase in ("done", "failed", "unrecorded"):
        event["execution_time"] = step.seconds
    if step.artifact_id:
        event["artifact_id"] = step.artifact_id
    elif step.blob:
        event["blob"] = step.blob
    elif step.phase == "done":
        event["result"] = codec.decode(step.result)
    if step.phase == "failed":
        event["message"] = step.message
    if step.phase in ("failed", "unrecorded"):
        event["error"] = step.error
    if step.phase == "waiting":
        event["request"] = codec.decode(step.request)
    return event


def now() -> str:
    """The time now as ISO 8601 in UTC."""
    return dt.datetime.now(dt.UTC).isoformat()


def _without_steps(state: State, value: Value) -> Value:
    of_steps = _artifacts_of(state.steps)
    refs = value["artifact_refs"].items()
    return {
        **value,
        "execution_state": {k: v for k, v in value["execution_state"].items() if k != "history"},
        "artifact_refs": {name: id for name, id in refs if of_steps.get(name) != id},
    }


def _artifacts_of(steps: Mapping[str, Step]) -> dict[str, str]:
    return {step.address: step.artifact_id for step in steps.values() if step.artifact_id}


def _listed(value: Value) -> Listed:
    metadata: Mapping[str, Any] = value["metadata"]
    return Listed(
        value["state_id"],
        value["status"],
        tuple(metadata["tags"]),
        metadata["pipeline_name"],
        metadata["parent_state_id"],
    )


def _seconds(text: str) -> float:
    """An ISO 8601 time in Unix seconds; now, if it is none. Without an offset it is local time."""
    try:
        return dt.datetime.fromisoformat(text).timestamp()
    except (OverflowError, ValueError):
        return time.time()
