"""The steps of one execution: called, recorded before and after, compared, published."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar, Token
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from foldlog import codec
from foldlog.errors import ConfigurationError, PayloadError, RedactionFailed
from foldlog.recovery.artifacts import ArtifactBackend
from foldlog.recovery.errors import (
    ExecutionPaused,
    ResultMissing,
    StepUnknown,
    UnreadableResult,
    consists_of,
)
from foldlog.recovery.models import (
    AutoCheckpointConfig,
    EventBus,
    ExecutionEvent,
    ExecutionStatus,
    ReplayMode,
    StateStatus,
)
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


class Decision(Enum):
    """EXECUTE a step, REUSE its result, or refuse it because its outcome is UNKNOWN."""

    EXECUTE = "execute"
    REUSE = "reuse"
    UNKNOWN = "unknown"


def decide(step: Step | None, mode: ReplayMode, *, repeatable: bool = False) -> Decision:
    """Return what happens to a step, given its record. A repeatable one is never UNKNOWN."""
    if step is None or mode is ReplayMode.VALIDATION:
        return Decision.EXECUTE
    if step.phase == "done":
        return Decision.REUSE
    return Decision.UNKNOWN if is_unknown(step) and not repeatable else Decision.EXECUTE


def is_done(step: Step | None) -> bool:
    """Whether a step has happened and its result is on record."""
    return step is not None and step.phase == "done"


def is_unknown(step: Step | None) -> bool:
    """Whether a step began, and its result is not on record."""
    return step is not None and step.phase in ("intended", "unrecorded")


class Work(NamedTuple):
    """A step to be done. `is_opaque`: the artifacts' codec takes any object, as pickle does."""

    address: str
    event_type: str
    artifact: bool
    is_opaque: bool
    declared: TypeCodec[Any] | None


class _Using:
    """A block in which an address names one step; if it fails, the address is free again."""

    __slots__ = ("_inner", "_outer", "_token", "_used")

    def __init__(self, used: _Used, step: tuple[str, str]) -> None:
        self._used = used
        self._inner: _Used = {step}

    def __enter__(self) -> None:
        self._outer = _within.get()
        self._token: Token[_Used | None] = _within.set(self._inner)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        _within.reset(self._token)
        if kind is not None:
            self._used -= self._inner  # also the steps within it
        elif self._outer is not None:
            self._outer |= self._inner


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
        self.artifacts: Final = artifacts
        self.mode: Final = mode
        self.auto_checkpoint: Final = auto_checkpoint
        self._event_bus = event_bus
        self._used: _Used = set()

    def using(self, address: str) -> _Using:
        """Enter this around a step. Raises ConfigurationError if the address was used before."""
        return _Using(self._used, self._claim(address))

    def is_used(self, address: str) -> bool:
        """Whether a step of that address has run here, or is under way."""
        return (self._tenure.state_id, address) in self._used

    def _claim(self, address: str) -> tuple[str, str]:
        step = (self._tenure.state_id, address)
        if step in self._used:
            raise ConfigurationError(
                f"a step {address!r:.80} has run in this execution, or is under way: give every "
                "step a different name; get_event_result() reads a result again"
            )
        self._used.add(step)
        return step

    async def execute(self, work: Work, call: Call[T]) -> T:
        """Do a step. Errors as `Execution.run`."""
        # 1. Record that it is about to happen. 2. Its effect. 3. Record the outcome. A step that
        # is cut short between 1 and 3 has an unknown outcome.
        address = work.address
        await self._tenure.write(Intended(address, work.event_type))
        if self._event_bus is not None:
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
        if self._event_bus is not None:
            completed = ExecutionStatus.COMPLETED
            await self.publish(
                address, work.event_type, completed, result=value, execution_time=seconds
            )
        if result.fault:
            raise UnreadableResult(self._tenure.state_id, address, result.type, result.fault)
        return value

    async def validate(self, work: Work, recorded: Step | None, call: Call[T]) -> T:
        """Call a step, and compare its outcome with the one on record."""
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

    async def reuse(self, recorded: Step, declared: TypeCodec[Any] | None) -> Any:
        """As `replay`, of a step whose address names no other one from now on."""
        step, outer = self._claim(recorded.address), _within.get()
        try:
            result = await self.replay(recorded, declared)
        except BaseException:
            self._used.discard(step)
            raise
        if outer is not None:
            outer.add(step)
        return result

    async def replay(self, recorded: Step, declared: TypeCodec[Any] | None) -> Any:
        """Return the result on record, and publish it with REPUBLISH_ALL.

        Raises:
            ResultMissing, UnreadableResult: see `Execution.run`. Others as `load_artifact`.
        """
        result = self.load(recorded, await self.data(recorded), declared)
        if self.mode is ReplayMode.REPUBLISH_ALL:
            status = ExecutionStatus.RECOVERED
            await self.publish(
                recorded.address, recorded.event_type, status, result=result, is_replayed=True
            )
        return result

    async def data(self, recorded: Step) -> Any:
        """Return the result of a step as it is on record. Errors as `replay`."""
        if recorded.blob:
            found = await self._tenure.read_blob(recorded.blob)
            if found is None:
                raise ResultMissing(self._tenure.state_id, recorded.address, recorded.blob)
            return codec.decode(found)
        if not recorded.artifact_id:
            return codec.decode(recorded.result)
        data = await self.artifacts.load_artifact(recorded.artifact_id)
        if data is None and not await self.artifacts.exists(recorded.artifact_id):
            raise ResultMissing(self._tenure.state_id, recorded.address, recorded.artifact_id)
        return data

    def load(self, recorded: Step, data: Any, declared: TypeCodec[Any] | None) -> Any:
        """Return a result as the declared type; as it is, if it needs none."""
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
        """Send the event bus, if there is one, what is on record: at most once."""
        if self._event_bus is not None:
            event = ExecutionEvent(self._tenure.state_id, address, event_type, status, **fields)
            taken = self._event_bus.publish(event)
            if inspect.isawaitable(taken):
                await taken

    async def _record_failure(self, work: Work, seconds: float, error: Exception) -> None:
        if consists_of(error, ExecutionPaused, StepUnknown):
            # A step within stops the execution, which runs this step again when it is resumed.
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
            done, large = await self._done(work, seconds, result)
        except (PayloadError, RedactionFailed) as error:
            lost = Unrecorded(work.address, seconds, type(error).__qualname__)
            await self._tenure.write(lost)
            raise
        await self._write(work, done)
        if done.blob:
            await self._tenure.keep_blob(done.blob, large)
        return result

    async def _write(self, work: Work, done: Done) -> None:
        is_artifact = bool(done.artifact_id or done.blob)
        if not self.auto_checkpoint.applies_to(work.event_type, is_artifact=is_artifact):
            await self._tenure.write(done)
            return
        try:
            await self._tenure.write(done, status=StateStatus.RUNNING)
        except (PayloadError, RedactionFailed):
            # The storage cannot be saved: the step's result is recorded all the same.
            await self._tenure.write(done)
            raise

    def _result(self, work: Work, value: Any) -> Result:
        """The result of a step, redacted."""
        found = Result(value) if work.is_opaque else dump_result(value, work.declared)
        return self._tenure.redaction.result(work.address, found, work.declared)

    async def _done(self, work: Work, seconds: float, result: Result) -> tuple[Done, bytes]:
        """What records a step's result, and its bytes where they stand in a blob."""
        if work.artifact:
            artifact_id = await self.artifacts.add_artifact(result.data)
            return Done(work.address, seconds, artifact_id=artifact_id, type=result.type), b""
        encoded = result.encoded or codec.encode(result.data, "result")
        if len(encoded) > LARGE_RESULT:
            blob = await self._tenure.put_blob(encoded)
            return Done(work.address, seconds, type=result.type, blob=blob), encoded
        return Done(work.address, seconds, msgspec.Raw(encoded), type=result.type), b""


async def finished(work: Coroutine[Any, Any, T]) -> T:
    """Await work that must end: a cancellation meanwhile is raised afterwards.

    For recording an effect that has happened. It takes no longer than the log's timeouts.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            result = await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
        except Exception as failure:
            if cancelled is None:
                raise
            cancelled.add_note(f"meanwhile: {failure!r}")
            raise cancelled from None
        else:
            if cancelled is None:
                return result
            raise cancelled
