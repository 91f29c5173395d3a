"""What state recovery raises beside `foldlog.errors`. All of them are FoldlogErrors."""

from __future__ import annotations

from typing import Any

from foldlog.errors import AppendConflict, AppendFailed, FoldlogError


class IncompatibleState(FoldlogError):
    """A snapshot of another schema version, from which no migration leads to today's."""

    def __init__(self, state_id: str, version: str, current: str) -> None:
        super().__init__(
            f"state {state_id!r:.80} is of version {version}; this program reads {current}, and no "
            "migration leads there"
        )
        self.state_id = state_id
        self.version = version
        self.current = current


class ExecutionPaused(FoldlogError):
    """The execution waits for an answer: `StateBackend.answer(state_id, address, value)`."""

    def __init__(self, state_id: str, address: str, request: Any) -> None:
        super().__init__(f"execution {state_id!r:.80} waits for an answer to {address!r:.80}")
        self.state_id = state_id
        self.address = address
        self.request = request


class ExecutionTakenOver(AppendConflict):
    """Another process entered the execution, or deleted it: this one records nothing more.

    `owner` is the new owner's name, by default its host and process id; "" if the execution was
    deleted.
    """

    def __init__(self, state_id: str, owner: str) -> None:
        event = f"was taken over by {owner:.80}" if owner else "was deleted"
        AppendFailed.__init__(
            self,
            f"execution {state_id!r:.80} {event}: this process records nothing more and runs no "
            "further step; let one process at a time run it",
        )
        self.subject = state_id
        self.expected = 0
        self.actual: int | None = None
        self.state_id = state_id
        self.owner = owner

    def __str__(self) -> str:
        return self.reason


class StepUnknown(FoldlogError):
    """A step began and its result is not recorded: it may or may not have had its effect.

    Say which, once you know: `Execution.confirm(address, result)` or `Execution.retract(address)`.
    `error` is the type of the error that prevented the recording; "" if the step never ended.
    """

    def __init__(self, state_id: str, address: str, attempt: int, error: str = "") -> None:
        ended = (
            f"its result could not be recorded ({error})"
            if error
            else "its end is not on record: its process died, or still runs it"
        )
        super().__init__(
            f"step {address!r:.80} of execution {state_id!r:.80} began, and {ended}. If it had its "
            f"effect, call confirm({address!r:.80}, result), else retract({address!r:.80})"
        )
        self.state_id = state_id
        self.address = address
        self.attempt = attempt
        self.error = error


class UnreadableResult(FoldlogError):
    """The result of a step is on record, and the caller has not declared a type that reads it.

    Nothing is lost: the next `run` that declares the type returns the result. `type` is the name
    of the type that it has.
    """

    def __init__(self, state_id: str, address: str, type: str, reason: str) -> None:
        super().__init__(
            f"step {address!r:.80} of execution {state_id!r:.80} is done, and its result is on "
            f"record as {type:.80}, but {reason}: annotate the step with what it returns, or call "
            "run(..., returns=...)"
        )
        self.state_id = state_id
        self.address = address
        self.type = type
        self.reason = reason


class ResultMissing(FoldlogError):
    """The result of a step was an artifact, and that was deleted."""

    def __init__(self, state_id: str, address: str, artifact_id: str) -> None:
        super().__init__(
            f"the result of step {address!r:.80} of execution {state_id!r:.80} was artifact "
            f"{artifact_id}, which is gone"
        )
        self.state_id = state_id
        self.address = address
        self.artifact_id = artifact_id


def consists_of(error: BaseException, *kinds: type[BaseException]) -> bool:
    """Whether an exception is of these kinds, or a group of nothing else, as of a TaskGroup."""
    if isinstance(error, BaseExceptionGroup):
        return all(consists_of(each, *kinds) for each in error.exceptions)
    return isinstance(error, kinds)
