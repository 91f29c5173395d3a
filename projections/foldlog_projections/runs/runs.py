"""One run of a session: who has it, its steps and questions, what it has heard and used.

Whether it runs, is paused, or has ended, its task says: the run is the task of its name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from foldlog import codec
from foldlog.envelope import Recorded
from foldlog.kind import Blob, Fold, Kind
from foldlog.words import Line, Rows, Shown, asked, brief, clip, in_seconds
from foldlog_projections import waiting
from foldlog_projections.fold import EqualByBytes
from foldlog_projections.runs import queues
from foldlog_projections.runs.jobs import (
    RETURNED,
    SLEPT,
    SUBMITTED,
    Returned,
    Slept,
    Submitted,
    submitted_line,
)

OPENED: Final = "run.opened"
RELEASED: Final = "run.released"
REWOUND: Final = "run.rewound"
STARTED: Final = "run.step_started"
DONE: Final = "run.step_done"
FAILED: Final = "run.step_failed"
RETRACTED: Final = "run.step_retracted"
UNRECORDED: Final = "run.step_unrecorded"
DOUBTED: Final = "run.step_doubted"
ASKED: Final = "run.asked"
ANSWERED: Final = "run.answered"
HEARD: Final = "run.heard"
USED: Final = "run.used"

NIL: Final = msgspec.Raw(b"\xc0")

UNKNOWN: Final = "?"
"""The digest of arguments that were not recorded: a step of an earlier version."""


class Opened(msgspec.Struct, frozen=True):
    """`run.opened`: from here on only this tenure writes steps. `process` has the lease.

    `session_id` is where it was opened: a fork's run has no owner yet.
    """

    epoch: int
    tenure: str
    process: str
    session_id: str
    host: str
    pid: int


class Released(msgspec.Struct, frozen=True, omit_defaults=True):
    """`run.released`: nobody has it. `parked`: it waits, and goes on afterwards.

    `awaits` are the runs whose ends it waits for. `failed`: its function has raised, and is called
    again.
    """

    parked: bool = False
    awaits: tuple[str, ...] = ()
    failed: bool = False


class Rewound(msgspec.Struct, frozen=True, omit_defaults=True):
    """`run.rewound`: the step, and all that were first begun after it, are void; "": all steps."""

    step: str = ""


class Started(msgspec.Struct, frozen=True, omit_defaults=True):
    """`run.step_started`: it is about to happen, with these arguments.

    Long arguments are left out: `digest` is that of their encoding. `parent` is the step in which
    it happens. Running a `repeatable` one twice does no harm.
    """

    step: str
    kind: str = "step"
    parent: str = ""
    arguments: msgspec.Raw = NIL
    digest: str = ""
    repeatable: bool = False


class Done(msgspec.Struct, frozen=True, omit_defaults=True):
    """`run.step_done`: it happened, and gave this. Time in seconds.

    A large result is in the blob. `type` names the type of a result that only the caller's own type
    reads back. `by` is who said so, where a person did.
    """

    step: str
    seconds: float = 0.0
    result: msgspec.Raw = NIL
    type: str = ""
    blob: Blob = ""
    by: str = ""


class Failed(msgspec.Struct, frozen=True):
    """`run.step_failed`: it raised. `error` is the exception's type. Time in seconds."""

    step: str
    seconds: float
    error: str
    message: str


class Retracted(msgspec.Struct, frozen=True, omit_defaults=True):
    """`run.step_retracted`: it did not happen after all, as `by` says, where a person did."""

    step: str
    by: str = ""


class Unrecorded(msgspec.Struct, frozen=True):
    """`run.step_unrecorded`: it happened, and its result was not recorded: `error` says why."""

    step: str
    seconds: float
    error: str


class Doubted(msgspec.Struct, frozen=True):
    """`run.step_doubted`: the run waits for a person who knows whether the step happened."""

    step: str


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """`run.asked`: the run waits for an answer, since and until a time (0: for ever)."""

    step: str
    question: msgspec.Raw
    since: float
    until: float = 0.0


class Answered(msgspec.Struct, frozen=True, omit_defaults=True):
    """`run.answered`: with this; `by` is "timeout" where nobody answered in time."""

    step: str
    answer: msgspec.Raw
    by: str = ""


class Heard(msgspec.Struct, frozen=True):
    """`run.heard`: what the `call`th look into a channel gave, by the ids of steering events."""

    channel: str
    call: int
    events: tuple[str, ...]


class Used(msgspec.Struct, frozen=True, omit_defaults=True):
    """`run.used`: a step, or the run itself, has used so much of a model. Cost in US dollars."""

    step: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


Phase = Literal[
    "started", "done", "failed", "retracted", "unrecorded", "doubted", "asked", "asleep"
]


class Step(msgspec.Struct, frozen=True):
    """A step or a question as it stands.

    Attributes:
        step: its name.
        ts: the writer's clock when this attempt, or this question, began, in Unix seconds.
        phase: "started", "done", "failed", "retracted", "asked"; "unrecorded" if its result could
            not be recorded, "doubted" if it waits for a person who knows whether it happened,
            "asleep" while it waits for a time.
        kind: what it is: "step", "question", "sleep", "model", "tool"; "event" if it was sent
            before it was waited for.
        parent: the step in which it happens; "" for none.
        attempt: how often it was started.
        arguments: what it was done with, encoded; their size and digest, if they are long.
        digest: the SHA-256 of the encoded arguments; "" for none.
        repeatable: doing it twice does no harm.
        seconds: how long it took.
        result: what it gave, or the answer, encoded.
        type: the name of the type that reads the result back; "" if it comes back as it is.
        blob: the name of a large result, which stands beside its record; "" for none.
        error: the type of the exception that it raised, or prevented its recording.
        message: that exception's message.
        question: what is asked, encoded.
        until: when the question expires, or the sleep ends, in Unix seconds; 0: never.
        by: "timeout" if nobody answered in time.
        input_tokens: tokens that it gave to models.
        output_tokens: tokens that it got from them.
        cost_usd: what they cost, in US dollars.
    """

    step: str
    ts: float
    phase: Phase = "retracted"
    kind: str = "step"
    parent: str = ""
    attempt: int = 0
    arguments: bytes = b"\xc0"
    digest: str = ""
    repeatable: bool = False
    seconds: float = 0.0
    result: bytes = b"\xc0"
    type: str = ""
    blob: str = ""
    error: str = ""
    message: str = ""
    question: bytes = b"\xc0"
    until: float = 0.0
    by: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


class Usage(msgspec.Struct, frozen=True):
    """What a run has used of one model.

    Attributes:
        input_tokens: tokens that it gave to the model.
        output_tokens: tokens that it got from it.
        cost_usd: what they cost, in US dollars.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    def plus(self, used: Used) -> Usage:
        """Internal: with what a record says."""
        return Usage(
            self.input_tokens + used.input_tokens,
            self.output_tokens + used.output_tokens,
            self.cost_usd + used.cost_usd,
        )


class Look(msgspec.Struct, frozen=True):
    """What a look into a channel gave, and behind how many steps it was made."""

    events: tuple[str, ...]
    behind: int


@dataclass(slots=True, eq=False)
class State(EqualByBytes):
    """A run. `epoch` grows with each owner, 0 before the first; `tenure` is "" while it has none.

    `steps` stand in the order in which they were first begun. `usage` is by model. `since` is the
    clock of its last owner when it was opened. `rewound` is the step from which it was last to be
    done again. `job` says how workers do it, None where none does; `returned` what it has given.
    `failures` counts the owners in a row that died with it, or whose function raised, since a step
    was done.
    """

    epoch: int = 0
    tenure: str = ""
    process: str = ""
    session_id: str = ""
    host: str = ""
    pid: int = 0
    since: float = 0.0
    parked: bool = False
    steps: dict[str, Step] = field(default_factory=dict)
    heard: dict[str, dict[int, Look]] = field(default_factory=dict[str, dict[int, Look]])
    usage: dict[str, Usage] = field(default_factory=dict)
    rewound: str = ""
    awaits: tuple[str, ...] = ()
    job: Submitted | None = None
    returned: Returned | None = None
    failures: int = 0

    def __bool__(self) -> bool:
        """Whether it was ever opened or started, or has steps of an earlier version."""
        return self.epoch > 0 or bool(self.steps) or self.job is not None

    def wakes_at(self) -> float:
        """When it begins, or the first time comes that it waits for, in Unix seconds; 0: none."""
        if self.job is not None and not self.epoch:
            return self.job.begins
        times = [each.until for each in self.steps.values() if each.phase in ("asked", "asleep")]
        return min((each for each in times if each), default=0.0)


def _apply(state: State, record: Any, envelope: Recorded) -> State:
    return applied(state, record, envelope.ts)


def applied(state: State, record: Any, ts: float) -> State:
    """The state after a record that was written at a time: the one it is given, changed."""
    match record:
        case Opened(epoch, tenure, process, session_id, host, pid):
            state.failures += state.tenure != ""
            state.epoch, state.tenure, state.process = epoch, tenure, process
            state.session_id, state.host, state.pid = session_id, host, pid
            state.since, state.parked, state.awaits = ts, False, ()
        case Released(parked, awaits, failed):
            state.tenure, state.parked, state.awaits = "", parked, awaits
            state.failures = state.failures + 1 if failed else 0
        case Submitted():
            state.job = record
        case Returned():
            state.returned = record
        case Rewound(step):
            _rewind(state, step)
        case Heard(channel, call, events):
            looks = state.heard.setdefault(channel, {})
            looks[call] = Look(events, len(state.steps))
        case Used():
            _use(state, record)
        case _:
            state.steps[record.step] = _step(state, record, ts)
            if isinstance(record, Done):
                state.failures = 0
            state.parked = False  # whatever a step's record says, no person is waited for any more
    return state


def _rewind(state: State, step: str) -> None:
    state.rewound, state.returned = step, None
    names = list(state.steps)
    void = names[names.index(step) :] if step in state.steps else [] if step else names
    for each in void:
        del state.steps[each]
    kept = len(state.steps) if step else -1
    for channel, looks in state.heard.items():
        state.heard[channel] = {n: look for n, look in looks.items() if look.behind <= kept}


def _use(state: State, used: Used) -> None:
    state.usage[used.model] = state.usage.get(used.model, Usage()).plus(used)
    step = state.steps.get(used.step)
    if step is not None:
        state.steps[used.step] = replace(
            step,
            input_tokens=step.input_tokens + used.input_tokens,
            output_tokens=step.output_tokens + used.output_tokens,
            cost_usd=step.cost_usd + used.cost_usd,
        )


def _step(state: State, record: Any, ts: float) -> Step:
    before = state.steps.get(record.step) or Step(record.step, ts)
    match record:
        case Started(step, kind_, parent, arguments, digest, repeatable):
            return Step(
                step,
                ts,
                "started",
                kind_,
                parent,
                before.attempt + 1,
                bytes(arguments),
                digest,
                repeatable,
            )
        case Done(_, seconds, result, type_, blob, by):
            given = bytes(result)
            done = replace(before, phase="done", seconds=seconds, result=given, type=type_)
            return replace(done, blob=blob, by=by)
        case Failed(_, seconds, error, message):
            return replace(before, phase="failed", seconds=seconds, error=error, message=message)
        case Unrecorded(_, seconds, error):
            return replace(before, phase="unrecorded", seconds=seconds, error=error)
        case Doubted():
            return replace(before, phase="doubted")
        case Asked(step, question, since, until):
            return Step(step, since, "asked", "question", question=bytes(question), until=until)
        case Slept(step, until):
            return Step(step, ts, "asleep", "sleep", until=until)
        case Answered(_, answer, by):
            if before.phase == "retracted" and before.attempt == 0:  # it came before it was asked
                before = replace(before, kind="event")
            seconds = max(ts - before.ts, 0.0)
            return replace(before, phase="done", seconds=seconds, result=bytes(answer), by=by)
        case Retracted(_, by):
            return replace(before, phase="retracted", by=by)
        case _:
            return replace(before, phase="retracted")


_RUN: Final = ":run"
"""The part of a story that steps are in which are in no other step."""


def _started(step: Started) -> Line:
    given = codec.decode(step.arguments)
    what = f"step {step.step} started"
    if step.kind != "step":
        what = f"{what} ({step.kind})"
    text = ", ".join(f"{name}={brief(each)}" for name, each in (given or {}).items())
    return Line(what, clip(text), about=(step.step,), under=step.parent or _RUN)


def _done(step: Done) -> Line:
    text = brief(step.result)
    if step.blob:
        text = "a large value"
    return Line(f"step {step.step} done in {in_seconds(step.seconds)}", text, about=(step.step,))


def _failed(step: Failed) -> Line:
    text = f"{step.error}: {step.message}" if step.message else step.error
    what = f"step {step.step} failed after {in_seconds(step.seconds)}"
    return Line(what, clip(text), tone="failed", about=(step.step,))


def _used(used: Used) -> Line:
    what = f"step {used.step} used" if used.step else "used"
    tokens = used.input_tokens + used.output_tokens
    spent = [f"{tokens:,} tokens"] if tokens else []
    if used.cost_usd:
        spent.append(f"${used.cost_usd:.4f}")
    text = " and ".join(spent) + (f" of {used.model}" if used.model else "")
    return Line(f"{what} {text}", about=(used.step or _RUN,))


def _asked(each: Asked) -> Line:
    question = asked(codec.decode(each.question))
    return Line("asked", question, tone="waiting", about=(each.step,), under=_RUN)


def _answered(answered: Answered) -> Line:
    given = codec.decode(answered.answer)
    if isinstance(given, bool):
        given = "yes" if given else "no"
    what = f"answered by {answered.by or 'somebody'}"
    return Line(what, brief(given), about=(answered.step,))


class StepRow(msgspec.Struct):
    """A row of the table of steps: a `Step` as it stands."""

    step: str
    kind: str
    parent: str
    phase: str
    attempt: int
    started_at: float
    seconds: float
    arguments: msgspec.Raw
    result: msgspec.Raw
    error: str
    message: str
    question: msgspec.Raw
    by: str
    input_tokens: int
    output_tokens: int
    cost_usd: float


def _rows(state: State) -> dict[str, StepRow]:
    return {
        name: StepRow(
            name,
            each.kind,
            each.parent,
            each.phase,
            each.attempt,
            each.ts,
            each.seconds,
            msgspec.Raw(each.arguments),
            msgspec.Raw(each.result),
            each.error,
            each.message,
            msgspec.Raw(each.question),
            each.by,
            each.input_tokens,
            each.output_tokens,
            each.cost_usd,
        )
        for name, each in state.steps.items()
    }


def _changed(record: Any) -> tuple[str, ...] | None:
    """Who has the run, and what it has heard, changes no step."""
    if isinstance(record, Opened | Released | Heard | Submitted | Returned):
        return None
    return () if isinstance(record, Rewound) else (record.step,)


_SHOWN: Final = ("phase", "blob", "error", "message", "by")
_COUNTED: Final = ("input_tokens", "output_tokens", "cost_usd")
_PARTS: Final = ("arguments", "question", "result")


def _entries(state: State) -> dict[str, Any]:
    """A run in the words of its program; left out is who had it when."""
    steps = {
        name: {field: getattr(step, field) for field in _SHOWN}
        | {field: codec.decode(getattr(step, field)) for field in _PARTS}
        | {field: getattr(step, field) or None for field in _COUNTED}
        | ({"attempt": step.attempt} if step.attempt > 1 else {})
        for name, step in state.steps.items()
    }
    job = {}
    if state.job is not None:
        job = {"function": state.job.function, "arguments": codec.decode(state.job.arguments)}
    return {"": {"steps": steps} | job} if state else {}


kind: Final = Kind(
    "runs",
    keys=("session_id", "run"),
    owner="session",
    listed=[waiting.listing("question"), waiting.listing("step"), queues.listing],
    records={
        OPENED: Opened,
        RELEASED: Released,
        REWOUND: Rewound,
        STARTED: Started,
        DONE: Done,
        FAILED: Failed,
        RETRACTED: Retracted,
        UNRECORDED: Unrecorded,
        DOUBTED: Doubted,
        ASKED: Asked,
        ANSWERED: Answered,
        HEARD: Heard,
        USED: Used,
        SUBMITTED: Submitted,
        SLEPT: Slept,
        RETURNED: Returned,
    },
    fold=Fold(State, _apply, state=State, takes="native"),
    version=4,
    redacted={
        STARTED: ("arguments",),
        DONE: ("result",),
        FAILED: ("message",),
        ASKED: ("question",),
        ANSWERED: ("answer",),
        SUBMITTED: ("arguments",),
        RETURNED: ("result",),
    },
    shown=Shown(
        {
            OPENED: Line("run {run} taken by process {pid} on {host}", about=(_RUN,), under=""),
            RELEASED: Line("run {run} let go", tone="aside"),
            REWOUND: "run {run} rewound: {step}",
            STARTED: _started,
            DONE: _done,
            FAILED: _failed,
            RETRACTED: lambda step: Line(f"step {step.step} taken back", about=(step.step,)),
            UNRECORDED: lambda step: Line(
                f"step {step.step} done, and not recorded", step.error, about=(step.step,)
            ),
            DOUBTED: lambda step: Line(
                f"did step {step.step} happen?", tone="waiting", about=(step.step,)
            ),
            ASKED: _asked,
            ANSWERED: _answered,
            HEARD: lambda heard: Line("heard by the run", tone="aside", about=heard.events),
            USED: _used,
            SUBMITTED: submitted_line,
            SLEPT: lambda step: Line(f"step {step.step} sleeps", about=(step.step,), under=_RUN),
            RETURNED: lambda each: Line("returned", brief(each.result)),
        },
        group="steps",
        entries=_entries,
        rows=Rows("steps", "a step or a question of a run, as it stands", StepRow, _rows, _changed),
    ),
)
