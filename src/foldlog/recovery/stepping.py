"""The steps of one execution: called, recorded before and after, compared, published."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from foldlog import codec
from foldlog.errors import ConfigurationError, PayloadError, RedactionFailed
from foldlog.recovery.artifacts import ArtifactBackend
from foldlog.recovery.errors import ExecutionPaused, ResultMissing, StepUnknown, UnreadableResult
from foldlog.recovery.models import AutoCheckpointConfig, ExecutionStatus, ReplayMode, StateStatus
from foldlog.recovery.publishing import EventBus, ExecutionEvent, publish
from foldlog.recovery.replay import consists_of, finished, is_done
from foldlog.recovery.results import (
    PLAIN_DATA,
    Result,
    dump_result,
    load_result,
    message_of,
    shortened,
)
from foldlog.recovery.tenure import Tenure
from foldlog.recovery.validation import Comparison
from foldlog.values import TypeCodec
from foldlog_projections.states import Done, Failed, Intended, Retracted, Step, Unrecorded

T = TypeVar("T")
Call = Callable[[], Awaitable[T]]

LARGE_RESULT: Final = 256 * 1024
"""Bytes from which the result of a step becomes an artifact by itself."""

_Used = set[tuple[str, str]]
"""Steps by state id and address."""

_within: ContextVar[_Used | None] = ContextVar("within", default=None)
"""What was used in the step that the caller is in."""


class Work(NamedTuple):
    """A step that is to be done. `is_held_whole`: the artifacts' codec takes any object."""

    address: str
    event_type: str
    artifact: bool
    is_held_whole: bool
    declared: TypeCodec[Any] | None


class Stepping:
    """Does the steps of one execution, each at most once for each time that it is intended."""

    def __init__(
        self,
        tenure: Tenure,
        artifacts: ArtifactBackend,
        event_bus: EventBus | None,
        mode: ReplayMode,
        auto_checkpoint: AutoCheckpointConfig,
    ) -> None:
        self.comparison: Final = Comparison()
        self._tenure = tenure
        self._artifacts = artifacts
        self._event_bus = event_bus
        self._mode = mode
        self._auto_checkpoint = auto_checkpoint
        self._used: _Used = set()

    @contextmanager
    def using(self, address: str) -> Iterator[None]:
        """Have an address name one step: until it has failed, and what it consists of with it.

        Raises:
            ConfigurationError: it names one already.
        """
        step = (self._tenure.state_id, address)
        if step in self._used:
            raise ConfigurationError(
                f"a step {address!r:.80} has run in this execution, or is under way: give every "
                "step an address of its own; get_event_result() reads a result again"
            )
        outer, inner = _within.get(), {step}
        self._used.add(step)
        token = _within.set(inner)
        try:
            yield
        except BaseException:
            self._used -= inner
            raise
        finally:
            _within.reset(token)
        if outer is not None:
            outer |= inner

    def is_used(self, address: str) -> bool:
        """Whether a step of that address has run here, or is under way."""
        return (self._tenure.state_id, address) in self._used

    async def execute(self, work: Work, call: Call[T]) -> T:
        """Do a step. Errors as `Execution.run`."""
        # 1. That it is about to happen. 2. Its effect. 3. What became of it. Whatever is cut
        # short between the first and the last leaves a step whose outcome is unknown.
        address = work.address
        await self._tenure.write(Intended(address, work.event_type))
        try:
            await self.publish(address, work.event_type, ExecutionStatus.STARTED)
        except Exception:
            await finished(self._tenure.write(Retracted(address)))  # it was not called
            raise
        began = time.perf_counter()
        try:
            value = await call()
        except Exception as error:
            await self._record_failure(work, time.perf_counter() - began, error)
            raise
        seconds = time.perf_counter() - began
        result = await finished(self._record(work, seconds, value))
        completed = ExecutionStatus.COMPLETED
        await self.publish(
            address, work.event_type, completed, result=value, execution_time=seconds
        )
        if result.fault:
            raise UnreadableResult(self._tenure.state_id, address, result.type, result.fault)
        return value

    async def validate(self, work: Work, recorded: Step | None, call: Call[T]) -> T:
        """Call a step, and compare what becomes of it with what is on record."""
        try:
            value = await call()
        except Exception as error:
            if not consists_of(error, ExecutionPaused):
                message = self._tenure.redaction.message(work.address, error)
                kind = type(error).__qualname__
                self.comparison.raised(work.address, recorded, kind, message)
            raise
        expected = None
        if recorded is not None and is_done(recorded):
            expected = await self.data(recorded)
        self.comparison.gave(work.address, recorded, expected, self._result(work, value).data)
        return value

    async def replay(self, recorded: Step, declared: TypeCodec[Any] | None) -> Any:
        """Return the result on record, and publish it where replays are.

        Raises:
            ResultMissing, UnreadableResult: see `Execution.run`. Others as `load_artifact`.
        """
        result = self.load(recorded, await self.data(recorded), declared)
        await self.publish(
            recorded.address,
            recorded.event_type,
            ExecutionStatus.RECOVERED,
            result=result,
            is_replayed=True,
            skip_republish=self._mode is not ReplayMode.REPUBLISH_ALL,
        )
        return result

    async def data(self, recorded: Step) -> Any:
        """Return the result of a step as it is on record. Errors as `replay`."""
        if not recorded.artifact_id:
            return codec.decode(recorded.result)
        data = await self._artifacts.load_artifact(recorded.artifact_id)
        if data is None and not await self._artifacts.exists(recorded.artifact_id):
            raise ResultMissing(self._tenure.state_id, recorded.address, recorded.artifact_id)
        return data

    def load(self, recorded: Step, data: Any, declared: TypeCodec[Any] | None) -> Any:
        """Return a result as the type that is declared; as it is, if it needs none."""
        if not recorded.type or (recorded.type == PLAIN_DATA and declared is None):
            return data
        try:
            return load_result(data, recorded.type, declared)
        except ValueError as error:
            state_id = self._tenure.state_id
            raise UnreadableResult(state_id, recorded.address, recorded.type, str(error)) from error

    async def publish(
        self, address: str, event_type: str, status: ExecutionStatus, **fields: Any
    ) -> None:
        """Tell the event bus of what is on record."""
        event = ExecutionEvent(self._tenure.state_id, address, event_type, status, **fields)
        await publish(self._event_bus, event)

    async def _record_failure(self, work: Work, seconds: float, error: Exception) -> None:
        if consists_of(error, ExecutionPaused, StepUnknown):
            # A step within stops the execution; it comes here again.
            await finished(self._tenure.write(Retracted(work.address)))
            return
        message = self._tenure.redaction.message(work.address, error)
        failed = Failed(work.address, seconds, type(error).__qualname__, message)
        await finished(self._tenure.write(failed))
        await self.publish(
            work.address,
            work.event_type,
            ExecutionStatus.FAILED,
            message=shortened(message_of(error)),
            execution_time=seconds,
        )

    async def _record(self, work: Work, seconds: float, value: Any) -> Result:
        try:
            result = self._result(work, value)
            done = await self._done(work, seconds, result)
        except (PayloadError, RedactionFailed) as error:
            lost = Unrecorded(work.address, seconds, type(error).__qualname__)
            await self._tenure.write(lost)
            raise
        is_artifact = bool(done.artifact_id)
        if not self._auto_checkpoint.applies_to(work.event_type, is_artifact=is_artifact):
            await self._tenure.write(done)
            return result
        try:
            await self._tenure.write(done, status=StateStatus.RUNNING)
        except (PayloadError, RedactionFailed):
            # Of the storage: what the step gave is on record all the same.
            await self._tenure.write(done)
            raise
        return result

    def _result(self, work: Work, value: Any) -> Result:
        """What a step gave, redacted."""
        found = Result(value) if work.is_held_whole else dump_result(value, work.declared)
        data = self._tenure.redaction.result(work.address, found, work.declared)
        return found._replace(data=data)

    async def _done(self, work: Work, seconds: float, result: Result) -> Done:
        encoded = b"" if work.artifact else codec.encode(result.data, "result")
        if work.artifact or len(encoded) > LARGE_RESULT:
            artifact_id = await self._artifacts.add_artifact(result.data)
            return Done(work.address, seconds, artifact_id=artifact_id, type=result.type)
        return Done(work.address, seconds, msgspec.Raw(encoded), type=result.type)
