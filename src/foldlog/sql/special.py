"""Tables whose rows are not simply a kind's records: what is there now of messages and the like."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog_projections import checkpoints as threads, messages, states
from foldlog_projections.checkpointrecords import Copied, Put
from foldlog_projections.messages import Message, MessagesRemoved
from foldlog_projections.thread import Thread

_encode: Final = msgspec.msgpack.Encoder().encode

Kept = dict[Any, Recorded]
"""The rows that there are now."""


class Special(NamedTuple):
    """A fold of a kind's records whose state gives rows; `schema` is the struct of their payloads.

    `row` says what stands in one.
    """

    row: str
    fold: Kind[Any]
    schema: type[msgspec.Struct]
    rows_of: Callable[[Any], Iterable[Recorded]]


# --- messages ------------------------------------------------------------------------------------


def _message(state: Kept, record: Message | MessagesRemoved, envelope: Recorded) -> Kept:
    name = record.conversation
    if isinstance(record, Message):
        state[name, record.id] = envelope
        return state
    ids = [id for where, id in state if where == name] if record.ids is None else record.ids
    for id in ids:
        state.pop((name, id), None)
    return state


# --- checkpoints ---------------------------------------------------------------------------------


class Checkpoint(msgspec.Struct):
    """A row of `checkpoints`. `channels` are those that have a value."""

    ns: str
    checkpoint_id: str
    parent_id: str | None
    metadata: msgspec.Raw
    channels: tuple[str, ...]


class _Checkpoints(msgspec.Struct):
    thread: Thread
    made: Kept


_NULL: Final = msgspec.Raw(b"\xc0")


def _checkpoint(state: _Checkpoints, record: Any, envelope: Recorded) -> _Checkpoints:
    state.thread = threads.kind.apply(state.thread, envelope)
    if isinstance(record, Put):
        state.made[record.ns, record.id] = envelope
    elif isinstance(record, Copied):
        state.made |= {(ns, id): envelope for ns, ids in record.ids.items() for id in ids}
    return state


def _checkpoints(state: _Checkpoints) -> Iterable[Recorded]:
    for ns, space in state.thread.namespaces.items():
        for id in space.ids:
            each, envelope = space.checkpoints[id], state.made.get((ns, id))
            if envelope is None:
                continue
            form, metadata = each.metadata
            raw = msgspec.Raw(metadata) if form is None else _NULL
            row = Checkpoint(ns, id, each.parent, raw, tuple(each.versions))
            yield replace(envelope, payload=_encode(row))


# --- steps ---------------------------------------------------------------------------------------

STEPS: Final = "steps"


class Step(msgspec.Struct):
    """A row of `steps`: as `foldlog_projections.states.Step`."""

    address: str
    event_type: str
    phase: str
    epoch: int
    attempt: int
    started_at: float
    seconds: float
    result: msgspec.Raw
    result_type: str
    artifact_id: str
    error: str
    message: str
    request: msgspec.Raw


class _Steps(msgspec.Struct):
    state: states.State
    latest: Kept


def _step(state: _Steps, record: Any, envelope: Recorded) -> _Steps:
    if not isinstance(record, states.Saved):  # a step does not need what the snapshots say
        state.state = states.applied(state.state, record, envelope.ts)
        if not isinstance(record, states.Owned):
            state.latest[record.address] = envelope
    return state


def _steps(state: _Steps) -> Iterable[Recorded]:
    for address, each in state.state.steps.items():
        row = Step(
            address,
            each.event_type,
            each.phase,
            each.epoch,
            each.attempt,
            each.ts,
            each.seconds,
            msgspec.Raw(each.result),
            each.type,
            each.artifact_id,
            each.error,
            each.message,
            msgspec.Raw(each.request) if each.request else _NULL,
        )
        yield replace(state.latest[address], payload=_encode(row))


def _rows(of: Kind[Any], fold: Fold[Any]) -> Kind[Any]:
    return Kind(f"sql_{of.name}", of=of, fold=fold)


MESSAGES: Final = Special(
    "a message that was not removed",
    _rows(messages.kind, Fold(dict, _message)),
    Message,
    dict.values,
)
CHECKPOINTS: Final = Special(
    "a checkpoint of a LangGraph thread that was not removed",
    _rows(threads.kind, Fold(lambda: _Checkpoints(Thread(), {}), _checkpoint)),
    Checkpoint,
    _checkpoints,
)
STEPS_NOW: Final = Special(
    "a step of an execution, as it stands",
    _rows(states.kind, Fold(lambda: _Steps(states.State(), {}), _step, takes="native")),
    Step,
    _steps,
)
BY_KIND: Final = {each.fold.family: each for each in (MESSAGES, CHECKPOINTS)}
"""The tables that stand in place of a kind's own, by its name."""
