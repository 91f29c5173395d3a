"""One recoverable state: its last snapshot, and the steps of the execution that it belongs to.

Snapshots come as deltas, each to what stood before it: writers compare-and-set. What the steps
say stands beside the snapshot, so that a checkpoint need not repeat a history that is on record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog_projections.delta import patch
from foldlog_projections.kept import as_type

SAVED: Final = "state.saved"
OWNED: Final = "execution.owned"
REWOUND: Final = "execution.rewound"
INTENDED: Final = "step.intended"
DONE: Final = "step.done"
FAILED: Final = "step.failed"
RETRACTED: Final = "step.retracted"
WAITING: Final = "step.waiting"


class Saved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`state.saved`: what the snapshot is now, as a delta to what it was.

    A large one comes in pieces, which take effect together with the last: those that name the
    save and are `partial` wait for it, and are void if another save comes first.
    """

    delta: Any
    save: str = ""
    partial: bool = False


class Owned(msgspec.Struct, frozen=True):
    """`execution.owned`: from here on, only the owner of this epoch writes steps.

    `tenure` is a text that nobody else has: epochs begin anew when a state is deleted.
    """

    epoch: int
    owner: str
    tenure: str


class Addressed(msgspec.Struct, frozen=True):
    """`step.retracted`: it did not happen. `execution.rewound`: it and all after it are void."""

    address: str


class Intended(msgspec.Struct, frozen=True):
    """`step.intended`: it is about to happen."""

    address: str
    event_type: str


class Done(msgspec.Struct, frozen=True, omit_defaults=True):
    """`step.done`: it happened, and gave this; a large result is an artifact. Time in seconds."""

    address: str
    seconds: float
    result: msgspec.Raw = msgspec.Raw(b"\xc0")
    artifact_id: str = ""


class Failed(msgspec.Struct, frozen=True):
    """`step.failed`: it raised. `error` is the exception's type. Time in seconds."""

    address: str
    seconds: float
    error: str
    message: str


class Waiting(msgspec.Struct, frozen=True):
    """`step.waiting`: the execution stops here until somebody answers the request."""

    address: str
    request: msgspec.Raw


class Step(msgspec.Struct, frozen=True):
    """A step as it stands. `phase` is "intended", "done", "failed", "retracted" or "waiting".

    `epoch` is the owner's who recorded the phase, `attempt` counts intentions, `ts` is the writer's
    clock at the first of this attempt. `result` and `request` are encoded payloads.
    """

    address: str
    event_type: str
    phase: str
    epoch: int
    attempt: int
    ts: float
    seconds: float = 0.0
    result: bytes = b"\xc0"
    artifact_id: str = ""
    error: str = ""
    message: str = ""
    request: bytes = b""


@dataclass(slots=True, eq=False)
class State:
    """`value` is the last snapshot in MessagePack's types; None if none was saved.

    `epoch` counts owners; 0 if no execution ever ran. `steps` stand in the order in which they
    were first intended. `rewound` is the address from which the execution is to be done again, or
    was. `pieces` are those of the save named `saving` that has not ended.
    """

    value: dict[str, Any] | None = None
    epoch: int = 0
    owner: str = ""
    tenure: str = ""
    steps: dict[str, Step] = field(default_factory=dict)
    rewound: str = ""
    saving: str = ""
    pieces: list[Any] = field(default_factory=list)

    def __eq__(self, other: object) -> bool:
        # By bytes: a NaN does not equal itself, and 1 equals True.
        return isinstance(other, State) and keep(self) == keep(other)

    __hash__ = None  # type: ignore[assignment]  # it changes


_saved: Final = msgspec.msgpack.Decoder(Saved)
_owned: Final = msgspec.msgpack.Decoder(Owned)
_addressed: Final = msgspec.msgpack.Decoder(Addressed)
_intended: Final = msgspec.msgpack.Decoder(Intended)
_done: Final = msgspec.msgpack.Decoder(Done)
_failed: Final = msgspec.msgpack.Decoder(Failed)
_waiting: Final = msgspec.msgpack.Decoder(Waiting)
keep, restore = as_type(State)


def initial() -> State:
    """Nothing was saved, nobody owns it."""
    return State()


def apply(state: State, envelope: Recorded, /) -> State:
    """Fold one envelope in."""
    if envelope.type == OWNED:
        owned = _owned.decode(envelope.payload)
        state.epoch, state.owner, state.tenure = owned.epoch, owned.owner, owned.tenure
    elif envelope.type == REWOUND:
        _rewind(state, _addressed.decode(envelope.payload).address)
    elif envelope.type.startswith("step."):
        step = _step(state, envelope)
        state.steps[step.address] = step
    else:
        _save(state, _saved.decode(envelope.payload))
    return state


def _save(state: State, saved: Saved) -> None:
    if saved.save != state.saving:
        state.saving, state.pieces = saved.save, []
    if saved.partial:
        state.pieces.append(saved.delta)
        return
    deltas = [*state.pieces, saved.delta]
    state.saving, state.pieces = "", []
    try:
        for delta in deltas:
            state.value = patch(state.value, delta)
    except (AttributeError, LookupError, TypeError, ValueError) as fault:
        raise msgspec.ValidationError(f"a delta to another value: {fault!r}") from fault


def _rewind(state: State, address: str) -> None:
    state.rewound = address
    addresses = list(state.steps)
    if address in state.steps:
        for void in addresses[addresses.index(address) :]:
            del state.steps[void]


def _step(state: State, envelope: Recorded) -> Step:
    payload = envelope.payload
    address = _addressed.decode(payload).address
    before = state.steps.get(address) or Step(address, "", "", 0, 0, envelope.ts)
    step = replace(before, epoch=state.epoch)
    match envelope.type:
        case "step.intended":
            event_type, attempt = _intended.decode(payload).event_type, before.attempt + 1
            return Step(address, event_type, "intended", state.epoch, attempt, envelope.ts)
        case "step.done":
            done = _done.decode(payload)
            return replace(
                step,
                phase="done",
                seconds=done.seconds,
                result=bytes(done.result),
                artifact_id=done.artifact_id,
            )
        case "step.failed":
            failed = _failed.decode(payload)
            return replace(
                step,
                phase="failed",
                seconds=failed.seconds,
                error=failed.error,
                message=failed.message,
            )
        case "step.waiting":
            request = bytes(_waiting.decode(payload).request)
            return replace(step, event_type="user", phase="waiting", request=request)
        case "step.retracted":
            return replace(step, phase="retracted")
    raise msgspec.ValidationError(f"{envelope.type} is not known to this version")


kind = Kind(
    "states",
    keys=("state_id",),
    records={
        SAVED: Saved,
        OWNED: Owned,
        REWOUND: Addressed,
        INTENDED: Intended,
        DONE: Done,
        FAILED: Failed,
        RETRACTED: Addressed,
        WAITING: Waiting,
    },
    fold=Fold(initial, apply, keep, restore),
    version=2,
    redacted={
        SAVED: ("tags", "description", "custom", "execution_state"),
        DONE: ("result",),
        FAILED: ("message",),
        WAITING: ("request",),
    },
)
