"""What state recovery raises beside `foldlog.errors`. All of them are FoldlogErrors."""

from __future__ import annotations

from typing import Any

from foldlog.errors import FoldlogError


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
        super().__init__(f"execution {state_id!r:.80} waits for an answer at {address!r:.80}")
        self.state_id = state_id
        self.address = address
        self.request = request


class StepUnknown(FoldlogError):
    """A step began and nothing is known of its end: it may or may not have had its effect.

    Whoever finds out says so: `Execution.confirm(address, result)` or `Execution.retract(address)`.
    """

    def __init__(self, state_id: str, address: str, attempt: int) -> None:
        super().__init__(
            f"step {address!r:.80} of execution {state_id!r:.80} began (attempt {attempt}) and its "
            "end is not on record: confirm(address, result) or retract(address)"
        )
        self.state_id = state_id
        self.address = address
        self.attempt = attempt


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
