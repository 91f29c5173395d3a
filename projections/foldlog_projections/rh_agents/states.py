"""One recoverable state: its last snapshot, and the run that it is the state of.

Snapshots come as deltas, each to what stood before it: writers compare-and-set. Earlier versions
recorded the steps of executions here; a run takes them over when the execution is next opened.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from foldlog import codec
from foldlog.envelope import Recorded
from foldlog.kind import Blob, Fold, Kind
from foldlog.words import Line, Shown, asked
from foldlog_projections import waiting
from foldlog_projections.delta import joined, patch, touched
from foldlog_projections.fold import EqualByBytes
from foldlog_projections.rh_agents import statelist

SAVED: Final = "state.saved"
OWNED: Final = "execution.owned"
REWOUND: Final = "execution.rewound"
INTENDED: Final = "step.intended"
DONE: Final = "step.done"
FAILED: Final = "step.failed"
RETRACTED: Final = "step.retracted"
WAITING: Final = "step.waiting"
UNRECORDED: Final = "step.unrecorded"
RUN: Final = "state.run"


class Saved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`state.saved`: the snapshot now, as a delta to the one before.

    The encoding of a large one is cut in pieces, which take effect together with the last: those
    that name the save and are `partial` wait for it, and are void if another save comes first.
    """

    delta: Any
    save: str = ""
    partial: bool = False


class Owned(msgspec.Struct, frozen=True):
    """`execution.owned`: from here on, only the owner of this epoch writes steps.

    `tenure` is unique: epochs begin anew when a state is deleted.
    """

    epoch: int
    owner: str
    tenure: str


class Rewound(msgspec.Struct, frozen=True):
    """`execution.rewound`: the step, and all that were first begun after it, are void."""

    address: str


class Intended(msgspec.Struct, frozen=True):
    """`step.intended`: it is about to happen."""

    address: str
    event_type: str


class Done(msgspec.Struct, frozen=True, omit_defaults=True):
    """`step.done`: it happened, and gave this. Time in seconds.

    A large result is in the blob, and in logs of before an artifact. `type` names the type of a
    result that only the caller's own type reads back.
    """

    address: str
    seconds: float
    result: msgspec.Raw = msgspec.Raw(b"\xc0")
    artifact_id: str = ""
    type: str = ""
    blob: Blob = ""


class Failed(msgspec.Struct, frozen=True):
    """`step.failed`: it raised. `error` is the exception's type. Time in seconds."""

    address: str
    seconds: float
    error: str
    message: str


class Retracted(msgspec.Struct, frozen=True):
    """`step.retracted`: it did not happen after all."""

    address: str


class Unrecorded(msgspec.Struct, frozen=True):
    """`step.unrecorded`: it happened, and what it gave could not be recorded: `error` says why."""

    address: str
    seconds: float
    error: str


class Waiting(msgspec.Struct, frozen=True):
    """`step.waiting`: the execution stops here until the request is answered."""

    address: str
    request: msgspec.Raw


class OfRun(msgspec.Struct, frozen=True):
    """`state.run`: it is the state of this run, which has its steps from here on.

    `token` is that of the run's owner, who alone saves checkpoints: see `Run.token`.
    """

    session_id: str
    run: str
    token: int = 0


class Step(msgspec.Struct, frozen=True):
    """A step of an execution of earlier versions, as it stands.

    `phase` is "intended", "done", "failed", "unrecorded", "retracted" or "waiting".

    `epoch` is that of the owner that recorded the phase, `attempt` counts intentions, `ts` is the
    writer's clock at the first of this attempt; of a step that waits, when it began to ask what it
    asks now. `result` and `request` are encoded payloads.
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
    type: str = ""
    error: str = ""
    message: str = ""
    request: bytes = b""
    blob: str = ""


@dataclass(slots=True, eq=False)
class State(EqualByBytes):
    """`value` is the last snapshot in MessagePack's types; None if none was saved.

    `session_id` and `run` name its run; "" if it has none. `token` is that of the run's owner.
    `epoch` counts the owners of earlier versions. `steps` are those that no run has taken over, in
    the order in which they were first intended. `rewound` is the address from which they were to be
    done again. `pieces` are those of the save named `saving` that has not ended.
    """

    value: dict[str, Any] | None = None
    epoch: int = 0
    owner: str = ""
    tenure: str = ""
    steps: dict[str, Step] = field(default_factory=dict)
    rewound: str = ""
    saving: str = ""
    pieces: list[Any] = field(default_factory=list)
    session_id: str = ""
    run: str = ""
    token: int = 0

    @property
    def is_of_execution(self) -> bool:
        """Whether its history is that of recorded steps, and not that of the snapshot."""
        return bool(self.session_id or self.epoch)


def _apply(state: State, record: Any, envelope: Recorded) -> State:
    return applied(state, record, envelope.ts)


def applied(state: State, record: Any, ts: float) -> State:
    """The state after a record that was written at a time: the one it is given, changed."""
    type_ = record.__class__
    if type_ is Saved:
        _save(state, record)
    elif type_ is Owned:
        state.epoch, state.owner, state.tenure = record.epoch, record.owner, record.tenure
    elif type_ is Rewound:
        _rewind(state, record.address)
    elif type_ is OfRun:
        state.session_id, state.run, state.token = record.session_id, record.run, record.token
        state.steps = {}
    else:
        state.steps[record.address] = _step(state, record, ts)
    return state


def _save(state: State, saved: Saved) -> None:
    if saved.save != state.saving:
        state.saving, state.pieces = saved.save, []
    if saved.partial:
        state.pieces.append(saved.delta)
        return
    parts = [*state.pieces, saved.delta]
    state.saving, state.pieces = "", []
    for delta in joined(parts):
        state.value = patch(state.value, delta)


def _rewind(state: State, address: str) -> None:
    state.rewound = address
    addresses = list(state.steps)
    if address in state.steps:
        for void in addresses[addresses.index(address) :]:
            del state.steps[void]


def _step(state: State, record: Any, ts: float) -> Step:
    address, epoch = record.address, state.epoch
    before = state.steps.get(address) or Step(address, "", "", 0, 0, ts)
    changed: dict[str, Any]
    match record:
        case Intended(event_type=event_type):
            return Step(address, event_type, "intended", epoch, before.attempt + 1, ts)
        case Done(seconds=seconds, result=result, artifact_id=artifact_id, type=type_, blob=blob):
            changed = {"seconds": seconds, "result": bytes(result), "type": type_}
            changed |= {"artifact_id": artifact_id, "blob": blob}
            phase = "done"
        case Failed(seconds=seconds, error=error, message=message):
            changed = {"seconds": seconds, "error": error, "message": message}
            phase = "failed"
        case Unrecorded(seconds=seconds, error=error):
            changed = {"seconds": seconds, "error": error}
            phase = "unrecorded"
        case Waiting(request=request):
            changed = {"event_type": "user", "request": bytes(request)}
            if is_another_question(before, record):
                changed["ts"] = ts
            phase = "waiting"
        case _:
            changed, phase = {}, "retracted"
    return replace(before, epoch=epoch, phase=phase, **changed)


def is_another_question(step: Step, asked: Waiting) -> bool:
    """Whether a step that waits for one answer now asks for another."""
    return step.phase == "waiting" and step.request != bytes(asked.request)


_TOLD: Final = ("phase", "artifact_id", "error", "message")


def _entries(state: State) -> dict[str, Any]:
    """An execution in the words of its program; left out is who ran it when."""
    if state.value is None and not state.steps:
        return {}
    steps = {
        name: {field: getattr(step, field) for field in _TOLD}
        | {"result": codec.decode(step.result)}
        | {"request": codec.decode(step.request) if step.request else None}
        | ({"attempt": step.attempt} if step.attempt > 1 else {})
        for name, step in state.steps.items()
    }
    saved = {name: value for name, value in (state.value or {}).items() if name != "state_id"}
    return {"": saved | {"steps": steps}}


kind: Final = Kind(
    "states",
    keys=("state_id",),
    listed=[waiting.listing("question"), statelist.listing],
    records={
        SAVED: Saved,
        OWNED: Owned,
        REWOUND: Rewound,
        INTENDED: Intended,
        DONE: Done,
        FAILED: Failed,
        RETRACTED: Retracted,
        WAITING: Waiting,
        UNRECORDED: Unrecorded,
        RUN: OfRun,
    },
    fold=Fold(State, _apply, state=State, takes="native"),
    version=6,
    redacted={
        SAVED: ("tags", "description", "custom", "execution_state"),
        DONE: ("result",),
        FAILED: ("message",),
        WAITING: ("request",),
    },
    shown=Shown(
        {
            SAVED: lambda saved: Line("snapshot saved", touched(saved.delta)),
            OWNED: "run taken by {owner}",
            REWOUND: "rewound to {address}",
            INTENDED: "step {address} started",
            DONE: "step {address} done: {result}",
            FAILED: lambda step: Line(
                f"step {step.address} failed", step.message or step.error, tone="failed"
            ),
            RETRACTED: "step {address} taken back",
            WAITING: lambda step: Line("asked", asked(codec.decode(step.request)), tone="waiting"),
            UNRECORDED: "step {address} done, and not recorded: {error}",
            RUN: "state of run {run}",
        },
        group="steps",
        entries=_entries,
    ),
)
