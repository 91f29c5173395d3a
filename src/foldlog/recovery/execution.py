"""Executions: steps by address, each recorded before and after its effect."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from enum import Enum
from types import TracebackType
from typing import Any, Final, Self, TypeVar, TypeVarTuple

from foldlog import codec
from foldlog.envelope import Draft
from foldlog.errors import ConfigurationError, PayloadError, RedactionFailed
from foldlog.recovery import records
from foldlog.recovery.artifacts import ArtifactBackend
from foldlog.recovery.comparison import Comparison
from foldlog.recovery.endings import consists_of, finished
from foldlog.recovery.errors import ExecutionPaused, ResultMissing, StepUnknown
from foldlog.recovery.models import (
    AutoCheckpointConfig,
    EventType,
    ExecutionStatus,
    ReplayMode,
    StateMetadata,
    StateStatus,
)
from foldlog.recovery.publishing import Publisher
from foldlog.recovery.replay import Decision, Validation, decide
from foldlog.recovery.tenure import Tenure
from foldlog.subjects import checked_id
from foldlog_projections.states import State, Step

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LARGE_RESULT: Final = 256 * 1024
"""Bytes from which the result of a step becomes an artifact by itself."""


class Execution:
    """One execution of a pipeline: made by `StateBackend.execution`, and entered by `async with`.

    Entering takes it over: whoever had it before gets AppendConflict from the next thing that they
    record, and nothing of theirs is appended. Leaving records how it ended: COMPLETED, or FAILED
    by the exception that propagates, which ExecutionPaused does not count as. What is cancelled,
    or ends with its process, stays RUNNING until somebody takes it over. An Execution is entered
    once; its steps may run side by side.
    """

    def __init__(
        self,
        tenure: Tenure,
        artifacts: ArtifactBackend,
        publisher: Publisher,
        *,
        replay_mode: ReplayMode,
        resume_from_address: str | None,
        auto_checkpoint: AutoCheckpointConfig,
    ) -> None:
        self._tenure = tenure
        self._artifacts = artifacts
        self._publisher = publisher
        self._mode = replay_mode
        self._resume_from = resume_from_address
        self._auto_checkpoint = auto_checkpoint
        self._comparison = Comparison()
        self._running: set[str] = set()
        self._phase = _Phase.NEW

    @property
    def state_id(self) -> str:
        """Under which `StateBackend.load_state` finds it."""
        return self._tenure.state_id

    @property
    def storage(self) -> dict[str, Any]:
        """The caller's own data: saved with each checkpoint, restored when it is taken over."""
        return self._tenure.storage

    @property
    def metadata(self) -> StateMetadata:
        """What it is found by; changes are saved with the next checkpoint."""
        return self._tenure.snapshot.metadata

    @property
    def unknown(self) -> tuple[str, ...]:
        """The steps that began and whose end is not on record: see `StepUnknown`."""
        begun = (step for step in self._tenure.steps.values() if step.phase == "intended")
        return tuple(step.address for step in begun if step.address not in self._running)

    @property
    def validation(self) -> Validation:
        """What a VALIDATION has found so far."""
        return self._comparison.found(self._tenure.steps)

    async def __aenter__(self) -> Self:
        if self._phase is not _Phase.NEW:
            raise ConfigurationError("an Execution is entered once; make another one to resume")
        if self._mode is ReplayMode.VALIDATION:
            await self._tenure.look()
        else:
            await self._tenure.begin(self._resume_from)
        self._phase = _Phase.ENTERED
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                await self.checkpoint(StateStatus.COMPLETED)
            elif isinstance(error, Exception) and not consists_of(error, ExecutionPaused):
                await self.checkpoint(StateStatus.FAILED)
        finally:
            self._phase = _Phase.LEFT

    def should_skip(self, address: str) -> bool:
        """Return whether `run` would return the result on record."""
        return decide(self._tenure.steps.get(address), self._mode) is Decision.REUSE

    def has_completed_event(self, address: str) -> bool:
        """Return whether a step is done, in any mode."""
        step = self._tenure.steps.get(address)
        return step is not None and step.phase == "done"

    async def get_event_result(self, address: str) -> Any | None:
        """Return the result on record of a step that is done, a new object; else None.

        Raises:
            ResultMissing: it was an artifact that is gone. Others as `load_artifact`.
        """
        step = self._tenure.steps.get(address)
        return await self._result(step) if step is not None and step.phase == "done" else None

    async def run(
        self,
        address: str,
        step: Callable[[*Ts], Awaitable[T]],
        *args: *Ts,
        event_type: str = EventType.STEP,
        artifact: bool = False,
        repeatable: bool = False,
    ) -> T:
        """Do a step once: call it with `args` and record what it gives, or return what is on
        record.

        What it gives is held by `foldlog.codec`, or with `artifact=True` by the artifact backend,
        which stores large objects once; a result beyond 256 KiB becomes an artifact by itself. What
        is on record of it is what the store's `redact=` makes of it.
        A step that raised before is done again, and so is, in VALIDATION, every step.

        Args:
            address: what the step is called, always the same: "plan", "plan::search::2".
            event_type: an `EventType`, or a text of the caller's.
            repeatable: doing it twice does no harm, or it is made of steps that are themselves on
                record: then it is done again if its outcome is unknown.

        Raises:
            StepUnknown: it began before, and its end is not on record. It was not called.
            ConfigurationError: a step of this address is under way; or the execution is not
                entered, or was left.
            InvalidId: the address is empty. It was not called.
            PayloadError: what it gave cannot be held. Its outcome is unknown from now on.
            RedactionFailed: the store's `redact=` failed on what it gave, or raised: likewise.
            AppendConflict: another owner has taken over. If it was called, nothing is on record.
            ResultMissing: the result on record was an artifact that is gone.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`; if it was called,
                its outcome is unknown. What it raises itself, after that is on record.
        """
        checked_id(address, "address")
        self._check_entered()
        if address in self._running:
            raise ConfigurationError(f"step {address!r:.80} is under way; addresses name one step")
        self._running.add(address)
        try:
            recorded = await self._on_record(address)
            decision = decide(recorded, self._mode, repeatable=repeatable)
            if recorded is not None and decision is Decision.REUSE:
                result: T = await self._replayed(recorded)
                return result
            if recorded is not None and decision is Decision.UNKNOWN:
                raise StepUnknown(self.state_id, address, recorded.attempt)
            if self._mode is ReplayMode.VALIDATION:
                return await self._validate(address, recorded, step, args)
            return await self._execute(address, step, args, str(event_type), artifact=artifact)
        finally:
            self._running.discard(address)

    async def ask(self, address: str, request: Any = None) -> Any:
        """Return what the user answered at this address; until then, stop the execution here.

        Stopping is recorded, with a checkpoint and the status PAUSED, and raises ExecutionPaused.
        Anybody may then call `StateBackend.answer`, and whoever takes the execution over, in this
        process or another, comes here again and goes on.

        Raises:
            ExecutionPaused: there is no answer yet.
            PayloadError: the request cannot be held. Others as `run`.
        """
        checked_id(address, "address")
        self._check_entered()
        if self._mode is ReplayMode.VALIDATION:
            recorded = self._tenure.steps.get(address)
        else:
            recorded = await self._tenure.refreshed(address)
        if recorded is None or recorded.phase != "done":
            recorded = await self._asked(address, request, recorded)
        return await self._replayed(recorded)

    async def confirm(self, address: str, result: Any = None) -> None:
        """Put on record that a step whose outcome was unknown has happened, and gave this.

        Raises:
            ConfigurationError: its outcome is not unknown, or is on record by now; or this is a
                VALIDATION, which records nothing.
            PayloadError: the result cannot be held. Others as `Tenure.write`.
        """
        given = self._tenure.redacting.result(address, result, "Execution.confirm")
        await self._settle(address, records.done(address, 0.0, codec.encode(given, "result")))

    async def retract(self, address: str) -> None:
        """Put on record that a step whose outcome was unknown has not happened: `run` does it.

        Errors as `confirm`.
        """
        await self._settle(address, records.retracted(address))

    async def checkpoint(self, status: StateStatus = StateStatus.RUNNING) -> None:
        """Save storage, metadata and status; steps are on record already. VALIDATION saves nothing.

        Raises:
            PayloadError: the storage or the metadata cannot be held. ConfigurationError: the
            execution is not entered, or was left. Others as `Tenure.write`.
        """
        self._check_entered()
        if self._mode is not ReplayMode.VALIDATION:
            await self._tenure.write(status=status)

    async def put_artifact(self, name: str, artifact: Any) -> str:
        """Save an artifact that the execution knows by this name; return its id.

        That it does is on record at once; the rest of a checkpoint only if they are automatic
        after artifacts. VALIDATION saves nothing. Errors as `save_artifact` and `checkpoint`.
        """
        self._check_entered()
        if self._mode is ReplayMode.VALIDATION:
            return self._artifacts.artifact_id(artifact)
        artifact_id = await self._artifacts.add_artifact(artifact)
        # At once: the garbage collection may come before the next checkpoint.
        await self._tenure.refer(name, artifact_id)
        if self._auto_checkpoint.applies_to("", is_artifact=True):
            await self.checkpoint()
        return artifact_id

    async def get_artifact(self, name: str) -> Any | None:
        """Return what was put under this name, or None. Errors as `load_artifact`."""
        artifact_id = self._tenure.snapshot.artifact_refs.get(name)
        return None if artifact_id is None else await self._artifacts.load_artifact(artifact_id)

    async def _on_record(self, address: str) -> Step | None:
        recorded = self._tenure.steps.get(address)
        if recorded is not None and decide(recorded, self._mode) is Decision.UNKNOWN:
            # It may be this process that was not told how its own append ended.
            return await self._tenure.refreshed(address)
        return recorded

    async def _asked(self, address: str, request: Any, before: Step | None) -> Step:
        """Stop here; or return the answer, if it has come in the meantime."""
        if self._mode is not ReplayMode.VALIDATION:
            encoded = codec.encode(self._tenure.redacting.request(address, request), "request")
            waiting = records.waiting(address, encoded)
            if not await self._tenure.write(
                waiting, status=StateStatus.PAUSED, when=lambda state: not _is_done(state, address)
            ):
                answered = await self._tenure.refreshed(address)
                if answered is not None:
                    return answered
            if before is None or (before.phase, before.request) != ("waiting", encoded):
                await self._publisher.publish(address, EventType.USER, ExecutionStatus.AWAITING)
        raise ExecutionPaused(self.state_id, address, request)

    async def _settle(self, address: str, said: Draft) -> None:
        """Put on record what somebody says of a step whose outcome is unknown there, too."""
        self._check_entered()
        if self._mode is ReplayMode.VALIDATION:
            raise ConfigurationError("a VALIDATION records nothing: the execution is another's")
        if address in self.unknown:
            if await self._tenure.write(said, when=lambda state: _is_begun(state, address)):
                return
            await self._tenure.refreshed(address)
        raise ConfigurationError(f"the outcome of step {address!r:.80} is not unknown")

    async def _replayed(self, recorded: Step) -> Any:
        result = await self._result(recorded)
        if self._mode is ReplayMode.REPUBLISH_ALL:
            await self._publisher.republish(recorded, result)
        return result

    async def _result(self, recorded: Step) -> Any:
        if not recorded.artifact_id:
            return codec.decode(recorded.result)
        result = await self._artifacts.load_artifact(recorded.artifact_id)
        if result is None and not await self._artifacts.exists(recorded.artifact_id):
            raise ResultMissing(self.state_id, recorded.address, recorded.artifact_id)
        return result

    async def _execute(
        self,
        address: str,
        step: Callable[[*Ts], Awaitable[T]],
        args: tuple[*Ts],
        event_type: str,
        *,
        artifact: bool,
    ) -> T:
        # 1. That it is about to happen. 2. Its effect. 3. What became of it. Whatever is cut
        # short between the first and the last leaves a step whose outcome is unknown.
        await self._tenure.write(records.intended(address, event_type))
        try:
            await self._publisher.publish(address, event_type, ExecutionStatus.STARTED)
        except Exception:
            await finished(self._tenure.write(records.retracted(address)))  # it was not called
            raise
        began = time.perf_counter()
        try:
            result = await step(*args)
        except Exception as error:
            seconds = time.perf_counter() - began
            if consists_of(error, ExecutionPaused, StepUnknown):
                # A step within stops the execution; it comes here again.
                await finished(self._tenure.write(records.retracted(address)))
                raise
            failed = records.failed(address, seconds, *self._tenure.redacting.told(address, error))
            await finished(self._tenure.write(failed))
            await self._publisher.publish(
                address,
                event_type,
                ExecutionStatus.FAILED,
                message=records.kept(records.told(error)[1]),
                seconds=seconds,
            )
            raise
        seconds = time.perf_counter() - began
        await finished(self._record(address, event_type, seconds, result, artifact=artifact))
        await self._publisher.publish(
            address, event_type, ExecutionStatus.COMPLETED, result=result, seconds=seconds
        )
        return result

    async def _record(
        self, address: str, event_type: str, seconds: float, result: Any, *, artifact: bool
    ) -> None:
        done, is_artifact = await self._done(address, seconds, result, artifact=artifact)
        if not self._auto_checkpoint.applies_to(event_type, is_artifact=is_artifact):
            await self._tenure.write(done)
            return
        try:
            await self._tenure.write(done, status=StateStatus.RUNNING)
        except (PayloadError, RedactionFailed):
            # Of the storage: what the step gave is on record all the same.
            await self._tenure.write(done)
            raise

    async def _done(
        self, address: str, seconds: float, result: Any, *, artifact: bool
    ) -> tuple[Draft, bool]:
        result = self._tenure.redacting.result(address, result)
        encoded = b"" if artifact else codec.encode(result, "result")
        if artifact or len(encoded) > LARGE_RESULT:
            artifact_id = await self._artifacts.add_artifact(result)
            return records.done_as_artifact(address, seconds, artifact_id), True
        return records.done(address, seconds, encoded), False

    async def _validate(
        self,
        address: str,
        recorded: Step | None,
        step: Callable[[*Ts], Awaitable[T]],
        args: tuple[*Ts],
    ) -> T:
        try:
            result = await step(*args)
        except Exception as error:
            if not consists_of(error, ExecutionPaused):
                told = self._tenure.redacting.told(address, error)
                self._comparison.raised(address, recorded, *told)
            raise
        is_done = recorded is not None and recorded.phase == "done"
        expected = await self._result(recorded) if recorded is not None and is_done else None
        given = self._tenure.redacting.result(address, result)
        self._comparison.gave(address, recorded, expected, given)
        return result

    def _check_entered(self) -> None:
        if self._phase is not _Phase.ENTERED:
            raise ConfigurationError(
                "an Execution is used within `async with`: before, it has no owner; "
                "afterwards, how it ended is on record"
            )


class _Phase(Enum):
    NEW = "new"
    ENTERED = "entered"
    LEFT = "left"


def _is_done(state: State, address: str) -> bool:
    step = state.steps.get(address)
    return step is not None and step.phase == "done"


def _is_begun(state: State, address: str) -> bool:
    step = state.steps.get(address)
    return step is not None and step.phase == "intended"
