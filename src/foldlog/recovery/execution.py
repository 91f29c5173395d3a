"""Executions: steps by address, each recorded before and after its effect."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self, TypeVar, TypeVarTuple

from foldlog import codec
from foldlog.envelope import Draft
from foldlog.errors import ConfigurationError
from foldlog.recovery import records
from foldlog.recovery.artifacts import ArtifactBackend
from foldlog.recovery.comparison import Comparison
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
from foldlog_projections.states import Step

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
        self._is_entered = False

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
        if self._is_entered:
            raise ConfigurationError("an Execution is entered once; make another one to resume")
        if self._mode is ReplayMode.VALIDATION:
            await self._tenure.look()
        else:
            await self._tenure.begin(self._resume_from)
        self._is_entered = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            await self.checkpoint(StateStatus.COMPLETED)
        elif isinstance(error, Exception) and not isinstance(error, ExecutionPaused):
            await self.checkpoint(StateStatus.FAILED)

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
        which stores large objects once; a result beyond 256 KiB becomes an artifact by itself.
        A step that raised before is done again, and so is, in VALIDATION, every step.

        Args:
            address: what the step is called, always the same: "plan", "plan::search::2".
            event_type: an `EventType`, or a text of the caller's.
            repeatable: doing it twice does no harm, or it is made of steps that are themselves on
                record: then it is done again if its outcome is unknown.

        Raises:
            StepUnknown: it began before, and its end is not on record. It was not called.
            ConfigurationError: a step of this address is under way.
            InvalidId: the address is empty. It was not called.
            PayloadError: what it gave cannot be held. Its outcome is unknown from now on.
            AppendConflict: another owner has taken over. If it was called, nothing is on record.
            ResultMissing: the result on record was an artifact that is gone.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`; if it was called,
                its outcome is unknown. What it raises itself, after that is on record.
        """
        if checked_id(address, "address") in self._running:
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
        if self._mode is ReplayMode.VALIDATION:
            recorded = self._tenure.steps.get(address)
        else:
            recorded = await self._tenure.refreshed(address)
        if recorded is not None and recorded.phase == "done":
            return await self._replayed(recorded)
        if self._mode is not ReplayMode.VALIDATION:
            waiting = records.waiting(address, request)
            await self._tenure.write(waiting, status=StateStatus.PAUSED)
            await self._publisher.publish(address, EventType.USER, ExecutionStatus.AWAITING)
        raise ExecutionPaused(self.state_id, address, request)

    async def confirm(self, address: str, result: Any = None) -> None:
        """Put on record that a step whose outcome was unknown has happened, and gave this.

        Raises:
            ConfigurationError: its outcome is not unknown. PayloadError: the result cannot be
                held. Others as `Tenure.write`.
        """
        self._check_unknown(address)
        await self._tenure.write(records.done(address, 0.0, codec.encode(result, "result")))

    async def retract(self, address: str) -> None:
        """Put on record that a step whose outcome was unknown has not happened: `run` does it.

        Errors as `confirm`.
        """
        self._check_unknown(address)
        await self._tenure.write(records.retracted(address))

    async def checkpoint(self, status: StateStatus = StateStatus.RUNNING) -> None:
        """Save storage, metadata and status; steps are on record already. VALIDATION saves nothing.

        Raises:
            PayloadError: the storage or the metadata cannot be held. Others as `Tenure.write`.
        """
        if self._mode is not ReplayMode.VALIDATION:
            await self._tenure.write(status=status)

    async def put_artifact(self, name: str, artifact: Any) -> str:
        """Save an artifact that the execution knows by this name; return its id.

        The next checkpoint refers to it, which is this one if they are automatic after artifacts.
        VALIDATION saves nothing. Errors as `save_artifact` and `checkpoint`.
        """
        if self._mode is ReplayMode.VALIDATION:
            return self._artifacts.artifact_id(artifact)
        artifact_id = await self._artifacts.add_artifact(artifact)
        self._tenure.snapshot.artifact_refs[name] = artifact_id
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
        await self._publisher.publish(address, event_type, ExecutionStatus.STARTED)
        began = time.perf_counter()
        try:
            result = await step(*args)
        except (ExecutionPaused, StepUnknown):
            # A step within stops the execution; it comes here again.
            await self._tenure.write(records.retracted(address))
            raise
        except Exception as error:
            seconds = time.perf_counter() - began
            await self._tenure.write(records.failed(address, seconds, error))
            await self._publisher.publish(
                address,
                event_type,
                ExecutionStatus.FAILED,
                message=records.told(error)[1],
                seconds=seconds,
            )
            raise
        seconds = time.perf_counter() - began
        done, is_artifact = await self._done(address, seconds, result, artifact=artifact)
        due = self._auto_checkpoint.applies_to(event_type, is_artifact=is_artifact)
        await self._tenure.write(done, status=StateStatus.RUNNING if due else None)
        await self._publisher.publish(
            address, event_type, ExecutionStatus.COMPLETED, result=result, seconds=seconds
        )
        return result

    async def _done(
        self, address: str, seconds: float, result: Any, *, artifact: bool
    ) -> tuple[Draft, bool]:
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
        except ExecutionPaused:
            raise
        except Exception as error:
            self._comparison.raised(address, recorded, error)
            raise
        is_done = recorded is not None and recorded.phase == "done"
        expected = await self._result(recorded) if recorded is not None and is_done else None
        self._comparison.gave(address, recorded, expected, result)
        return result

    def _check_unknown(self, address: str) -> None:
        if address not in self.unknown:
            raise ConfigurationError(f"the outcome of step {address!r:.80} is not unknown")
