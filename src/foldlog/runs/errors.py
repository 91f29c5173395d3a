"""What runs raise beside `foldlog.errors`. All of them are FoldlogErrors."""

from __future__ import annotations

import datetime as dt
from typing import Any

from foldlog.errors import AppendConflict, AppendFailed, Busy, FoldlogError


class _OfRun(FoldlogError):
    """About one run: `session_id` and `run` name it."""

    def __init__(self, session_id: str, run: str, message: str) -> None:
        super().__init__(f"run {run!r:.80} of session {session_id!r:.80} {message}")
        self.session_id = session_id
        self.run = run


class RunBusy(_OfRun, Busy):
    """Another owner has the run, and lives: `host`, `pid`, and `since` when it has it, in UTC."""

    def __init__(
        self, session_id: str, run: str, host: str, pid: int, since: dt.datetime, waited: float
    ) -> None:
        super().__init__(
            session_id,
            run,
            f"is open in process {pid} on {host:.80} since {since:%Y-%m-%d %H:%M:%S} UTC, and was "
            f"not let go in {waited:g} s: wait longer (wait=), or end that process",
        )
        self.host = host
        self.pid = pid
        self.since = since


class RunTakenOver(AppendConflict):
    """Another owner has the run now, or its session was removed: nothing more is recorded.

    `owner` is the host and the process id of the new one; "" if the run is gone.
    """

    def __init__(self, session_id: str, run: str, owner: str) -> None:
        event = f"was taken over by {owner:.80}" if owner else "was removed, or given up"
        AppendFailed.__init__(
            self,
            f"run {run!r:.80} of session {session_id!r:.80} {event}: this owner records nothing "
            "more and runs no further step",
        )
        self.subject = run
        self.expected = 0
        self.actual: int | None = None
        self.session_id = session_id
        self.run = run
        self.owner = owner

    def __str__(self) -> str:
        return self.reason


class RunCancelled(_OfRun):
    """The run was cancelled by an order: no further step begins. `reason` is what the order said.

    Opening it again raises this, too, unless with `restart=True`.
    """

    def __init__(self, session_id: str, run: str, reason: str = "") -> None:
        said = f" ({reason:.200})" if reason else ""
        anew = "to begin anew, open it with restart=True, or start another run"
        super().__init__(session_id, run, f"was cancelled{said}; {anew}")
        self.reason = reason


class RunPaused(_OfRun):
    """The run waits for a person and lets go: `store.waiting()` lists the question `step` as `id`.

    Opening the run again comes to the same place, and goes on once there is an answer.
    """

    def __init__(self, session_id: str, run: str, step: str, question: Any, id: str = "") -> None:
        super().__init__(
            session_id, run, f"waits for an answer to {step!r:.80}: store.waiting() lists it"
        )
        self.step = step
        self.question = question
        self.id = id


class RunHandedOn(RunPaused):
    """A worker lets go of the run, which goes on later, there or elsewhere: do not catch it.

    It sleeps, is paused, waits for other runs, or its worker ends. `awaits` names those runs.
    """

    def __init__(
        self, session_id: str, run: str, why: str, step: str = "", awaits: tuple[str, ...] = ()
    ) -> None:
        _OfRun.__init__(self, session_id, run, f"lets go of its worker: {why}")
        self.step: str = step
        self.question: Any = None
        self.id: str = ""
        self.awaits: tuple[str, ...] = awaits


class RunEnded(_OfRun):
    """The run has ended, as `status` says, and is not opened again."""

    def __init__(self, session_id: str, run: str, status: str) -> None:
        super().__init__(session_id, run, f"has ended: {status}")
        self.status = status


class RunFailed(_OfRun):
    """The run that was waited for has failed: `error` says why."""

    def __init__(self, session_id: str, run: str, error: str) -> None:
        super().__init__(session_id, run, f"has failed: {error:.500}")
        self.error = error


class WorkerLost(_OfRun):
    """Worker after worker has died in the run, `attempts` of them: it is given up."""

    def __init__(self, session_id: str, run: str, attempts: int) -> None:
        super().__init__(
            session_id,
            run,
            f"was given to {attempts} workers that died in it, with no step done in between",
        )
        self.attempts = attempts


class CodeChanged(_OfRun):
    """The run began with another version of its function, which came to other steps.

    `recorded` is the first step on record that the code has not come to; `given` the one to which
    it comes instead. Run the version that it began with, or say what changed: `run.patched`.
    """

    def __init__(self, session_id: str, run: str, recorded: str, given: str) -> None:
        super().__init__(
            session_id,
            run,
            f"has step {recorded!r:.80} on record next, and its code, of another version, comes to "
            f"{given!r:.80}: have a worker with the version that it began with, or use run.patched",
        )
        self.recorded = recorded
        self.given = given


class QuestionExpired(_OfRun):
    """Nobody answered the question `step` in time, and it has no default."""

    def __init__(self, session_id: str, run: str, step: str) -> None:
        super().__init__(
            session_id, run, f"asked {step!r:.80}, and nobody answered in time: give a default="
        )
        self.step = step


class StepUnknown(_OfRun):
    """A step began and its result is not recorded: it may or may not have had its effect.

    `store.waiting()` lists it as `id`. Say which, once you know: `store.confirm(id, result)` or
    `store.retract(id)`; then do the step again. `error` is the type of the error that prevented the
    recording; "" if the step never ended.
    """

    def __init__(
        self, session_id: str, run: str, step: str, attempt: int, error: str = "", id: str = ""
    ) -> None:
        ended = (
            f"its result could not be recorded ({error})"
            if error
            else "its end is not on record: its process died"
        )
        super().__init__(
            session_id,
            run,
            f"began step {step!r:.80}, and {ended}. `foldlog waiting` lists it: confirm it if it "
            "had its effect, else retract it",
        )
        self.step = step
        self.attempt = attempt
        self.error = error
        self.id = id


class StepChanged(_OfRun):
    """A step that is done was to be run with other arguments: `recorded` and `given`.

    Run it with `on_change="again"` to have it done again, or with `on_change="keep"` to have its
    recorded result. Arguments that were too long to record are named by their size and digest.
    """

    def __init__(
        self, session_id: str, run: str, step: str, recorded: object, given: object
    ) -> None:
        super().__init__(
            session_id,
            run,
            f"has done step {step!r:.80} with {recorded!r:.300}, and is to do it with "
            f'{given!r:.300}: say on_change="again" or on_change="keep"',
        )
        self.step = step
        self.recorded = recorded
        self.given = given


class UnreadableResult(_OfRun):
    """The result of a step is on record, and the caller has not declared a type that reads it.

    Nothing is lost: the next call that declares the type returns the result. `type` is the name of
    the type that it has.
    """

    def __init__(self, session_id: str, run: str, step: str, type: str, reason: str) -> None:
        super().__init__(
            session_id,
            run,
            f"has done step {step!r:.80}, whose result is on record as {type:.80}, but {reason}: "
            "annotate the function with what it returns, or give returns=",
        )
        self.step = step
        self.type = type
        self.reason = reason


class ResultMissing(_OfRun):
    """The large result of a step is gone."""

    def __init__(self, session_id: str, run: str, step: str) -> None:
        super().__init__(session_id, run, f"has done step {step!r:.80}, whose result is gone")
        self.step = step


def parts_of(error: BaseException) -> list[BaseException]:
    """The exceptions of a group, and of groups in it; of another exception, that one."""
    if isinstance(error, BaseExceptionGroup):
        return [part for each in error.exceptions for part in parts_of(each)]
    return [error]


def consists_of(error: BaseException, *kinds: type[BaseException]) -> bool:
    """Whether an exception is of these kinds, or a group of nothing else, as of a TaskGroup."""
    return all(isinstance(each, kinds) for each in parts_of(error))
