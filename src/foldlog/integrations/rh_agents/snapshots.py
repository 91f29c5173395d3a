"""Snapshots as the log holds them, and back."""

from __future__ import annotations

import datetime as dt
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from foldlog import codec
from foldlog.envelope import Draft, draft, upsert_id
from foldlog.errors import LogCorrupt, PayloadError, RedactionFailed
from foldlog.integrations.rh_agents.models import ExecutionStatus, StateSnapshot
from foldlog.kind import Key
from foldlog.opening.states import ARTIFACT, earlier_steps, list_on
from foldlog.store.core import core_of
from foldlog.store.decisions import InAtomic, decide_drafts
from foldlog.store.payloads import drafting, dump, encode
from foldlog.store.primitives import At, Decided
from foldlog.store.redaction import Redaction
from foldlog.store.store import BaseStore
from foldlog.subjects import checked_id
from foldlog.values import as_plain
from foldlog_projections.delta import cut, difference
from foldlog_projections.rh_agents import statelist, states
from foldlog_projections.rh_agents.statelist import Listed
from foldlog_projections.rh_agents.states import Saved, State
from foldlog_projections.runs import runs
from foldlog_projections.runs.runs import Step

Value = dict[str, Any]
"""A snapshot in MessagePack's types: what `State.value` is."""

_STATUS_OF_PHASE: Final = {
    "done": ExecutionStatus.COMPLETED,
    "failed": ExecutionStatus.FAILED,
    "asked": ExecutionStatus.AWAITING,
    "retracted": ExecutionStatus.RETRACTED,
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
    if state.is_of_execution:
        kept = {k: v for k, v in value["execution_state"].items() if k != "history"}
        value = {**value, "execution_state": kept}
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


Change = Callable[[State], tuple[list[Draft], Value] | None]
"""Given a state: the records that precede a snapshot, and the snapshot; None for no change. It
changes nothing of the state and keeps nothing of it.
"""


async def write_state(
    store: BaseStore, state_id: str, change: Change, *, in_atomic: InAtomic = "stage"
) -> bool:
    """Save what `change` says, and return whether it said anything. Errors as `Store.decide`.

    State and list change in the same moment; `in_atomic` says when, inside `store.atomic()`.
    """
    key, core = states.kind(state_id), core_of(store)

    def decision(at: At) -> dict[Key[Any], Decided]:
        state: State = at.folded.state
        changed = change(state)
        if changed is None:
            return {}
        first, value = changed
        decided: dict[Key[Any], Decided] = {key: Decided([*first, *saving(state, value)])}
        listed = _listed(value)
        if state.value is None or _listed(state.value) != listed:
            shard = core.subject(states.kind, state_id).shard
            decided[list_on(core, shard)] = Decided([encode(statelist.kind, listed)])
        return decided

    return bool(await decide_drafts(core, [key], decision, in_atomic=in_atomic))


def restored(state_id: str, state: State) -> StateSnapshot | None:
    """Return the snapshot of a state without the history of its steps, or None.

    Raises LogCorrupt.
    """
    if state.value is None:
        return None
    try:
        return StateSnapshot.model_validate(codec.decode(_encode(state.value)))
    except (LookupError, TypeError, ValueError, msgspec.MsgspecError) as fault:
        raise LogCorrupt(states.SAVED, 0, f"state {state_id!r:.80}: {fault}") from fault


def with_steps(snapshot: StateSnapshot, steps: Mapping[str, Step]) -> StateSnapshot:
    """Return a snapshot with the history of its steps, and the artifacts that they gave."""
    events = [event_of(each) for each in steps.values()]
    snapshot.execution_state["history"] = {"events": events}
    snapshot.artifact_refs |= {e["address"]: e["artifact_id"] for e in events if "artifact_id" in e}
    return snapshot


async def steps_of(store: BaseStore, state_id: str, state: State) -> dict[str, Step]:
    """Return the steps of an execution's state, which was just read."""
    if not state.session_id:
        return earlier_steps(state)
    run: Key[runs.State] = runs.kind(state.session_id, state.run)
    return await store.view(run, lambda found: dict(found.steps), consistency="strong")


def event_of(step: Step) -> dict[str, Any]:
    """A step as an event of a snapshot's history. Times are ISO 8601, durations in seconds."""
    event: dict[str, Any] = {
        "address": step.step,
        "event_type": "user" if step.kind == "question" else step.kind,
        "execution_status": _STATUS_OF_PHASE.get(step.phase, ExecutionStatus.STARTED).value,
        "attempt": step.attempt,
        "started_at": dt.datetime.fromtimestamp(step.ts, dt.UTC).isoformat(),
    }
    if step.phase in ("done", "failed", "unrecorded"):
        event["execution_time"] = step.seconds
    if step.type == ARTIFACT:
        event["artifact_id"] = codec.decode(step.result)["artifact_id"]
    elif step.blob:
        event["blob"] = step.blob
    elif step.phase == "done":
        event["result"] = codec.decode(step.result)
    if step.phase == "failed":
        event["message"] = step.message
    if step.error:
        event["error"] = step.error
    if step.phase == "asked":
        event["request"] = codec.decode(step.question)
    return event


def now() -> str:
    """The time now as ISO 8601 in UTC."""
    return dt.datetime.now(dt.UTC).isoformat()


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
