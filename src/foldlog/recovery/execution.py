"""Executions: steps by address, each recorded before and after its effect."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Literal, Protocol, Self, TypeVar, overload

import msgspec

from foldlog import codec
from foldlog.errors import ConfigurationError
from foldlog.recovery.artifacts import ArtifactBackend
from foldlog.recovery.errors import ExecutionPaused, ExecutionTakenOver, StepUnknown, consists_of
from foldlog.recovery.models import (
    EventBus,
    EventType,
    ExecutionStatus,
    ReplayMode,
    StateMetadata,
    StateSnapshot,
    StateStatus,
)
from foldlog.recovery.results import PLAIN_DATA
from foldlog.recovery.snapshots import with_steps
from foldlog.recovery.stepping import Decision, Stepping, Work, decide, is_done, is_unknown
from foldlog.recovery.tenure import Tenure
from foldlog.recovery.validation import Validation
from foldlog.subjects import checked_id
from foldlog.values import TypeCodec, as_plain, returned_type, type_codec
from foldlog_projections import states
from foldlog_projections.states import Done, Retracted, Step, Waiting

T = TypeVar("T")


class Executions(Protocol):
    """What makes executions: a `StateBackend`."""

    async def exists(self, state_id: str) -> bool:
        """Return whether there is such a state."""

    async def save_state(self, snapshot: StateSnapshot) -> bool:
        """Make this the snapshot of its state."""

    def execution(self, *args: Any, **options: Any) -> Execution:
        """Return an execution to be entered."""


class Execution:
    """One execution of a pipeline, made by `store.recovery.execution` and entered by `async with`.

    Entering takes it over: the next record of its previous owner raises ExecutionTakenOver, an
    AppendConflict, and is not appended. Leaving records how it ended: COMPLETED, or FAILED if an
    exception other than ExecutionPaused propagates. An execution that is cancelled, or ends with
    its process, stays RUNNING until another owner takes it over. An Execution is entered once; its
    steps may run side by side. `await` enters it, too; then `close` leaves it.
    """

    def __init__(self, tenure: Tenure, steps: Stepping, resume_from: str | None) -> None:
        self._tenure = tenure
        self._steps = steps
        self._mode = steps.mode
        self._resume_from = resume_from
        self._phase: Literal["new", "open", "entered", "left"] = "new"

    @classmethod
    async def load_from_state_id(
        cls,
        state_id: str,
        state_backend: Executions,
        artifact_backend: ArtifactBackend | None = None,
        event_bus: EventBus | None = None,
        replay_mode: ReplayMode = ReplayMode.NORMAL,
        resume_from_address: str | None = None,
    ) -> Execution | None:
        """Return the execution of a state, to be entered; None if there is no such state.

        Seed 003, section 4.

        Args:
            state_id: the state.
            state_backend: `store.recovery`.
            artifact_backend: where its artifacts go. None: `store.recovery.artifacts`.
            event_bus: an object with `publish(event)`, which hears of every step.
            replay_mode: NORMAL returns recorded results; VALIDATION compares.
            resume_from_address: this step and all that were first begun after it are run again.

        Raises:
            InvalidId: the id is empty.
            IncompatibleState: the state is of another version, and no migration leads to this one.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            ConfigurationError: options that exclude each other.
        """
        if not await state_backend.exists(state_id):
            return None
        return state_backend.execution(
            state_id,
            replay_mode=replay_mode,
            resume_from_address=resume_from_address,
            event_bus=event_bus,
            artifacts=artifact_backend,
        )

    @classmethod
    async def from_snapshot(
        cls,
        snapshot: StateSnapshot,
        state_backend: Executions,
        artifact_backend: ArtifactBackend | None = None,
        event_bus: EventBus | None = None,
        replay_mode: ReplayMode = ReplayMode.NORMAL,
        resume_from_address: str | None = None,
    ) -> Execution:
        """Return the execution of a snapshot's state, to be entered, with the snapshot's storage.

        The snapshot is saved; its history is what the recorded steps say. VALIDATION saves nothing.
        Seed 003, section 4.

        Args:
            snapshot: the snapshot.
            state_backend: `store.recovery`.
            artifact_backend: where its artifacts go. None: `store.recovery.artifacts`.
            event_bus: an object with `publish(event)`, which hears of every step.
            replay_mode: NORMAL returns recorded results; VALIDATION compares.
            resume_from_address: this step and all that were first begun after it are run again.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
            ConfigurationError: options that exclude each other.
        """
        if replay_mode is not ReplayMode.VALIDATION:
            await state_backend.save_state(snapshot)
        return state_backend.execution(
            snapshot.state_id,
            replay_mode=replay_mode,
            resume_from_address=resume_from_address,
            event_bus=event_bus,
            artifacts=artifact_backend,
        )

    @property
    def state_id(self) -> str:
        """The id under which `store.recovery.load_state` finds it."""
        return self._tenure.state_id

    @property
    def storage(self) -> dict[str, Any]:
        """Your data: saved with each checkpoint, restored when the execution is taken over."""
        return self._tenure.storage

    @property
    def metadata(self) -> StateMetadata:
        """The metadata by which it is found; changes are saved with the next checkpoint."""
        return self._tenure.snapshot.metadata

    @property
    def unknown(self) -> tuple[str, ...]:
        """The steps that began and have no recorded result: `confirm` or `retract` each."""
        steps = self._tenure.steps.values()
        unknown = (step.address for step in steps if is_unknown(step))
        return tuple(each for each in unknown if not self._steps.is_used(each))

    @property
    def validation(self) -> Validation:
        """The findings of a VALIDATION so far."""
        return self._steps.comparison.found(self._tenure.steps)

    def __await__(self) -> Generator[Any, None, Self]:
        return self._open().__await__()

    async def __aenter__(self) -> Self:
        if self._phase != "open":  # it is, where it was awaited before
            await self._open()
        self._phase = "entered"
        return self

    async def _open(self) -> Self:
        if self._phase != "new":
            raise ConfigurationError("an Execution is entered once; make another one to resume")
        if self._mode is ReplayMode.VALIDATION:
            await self._tenure.look()
        else:
            await self._tenure.begin(self._resume_from)
        self._phase = "open"
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            await self.close()
        elif isinstance(error, Exception) and not consists_of(
            error, ExecutionPaused, ExecutionTakenOver
        ):
            await self.close(StateStatus.FAILED)
        self._phase = "left"

    async def close(self, status: StateStatus = StateStatus.COMPLETED) -> None:
        """Leave the execution, and record how it ended.

        Args:
            status: how it ended.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            ExecutionTakenOver: another process has entered the execution, or deleted it.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored.
            ConfigurationError: the execution is not entered, or was left.
        """
        try:
            await self.save_checkpoint(status)
        finally:
            self._phase = "left"

    def should_skip_event(self, address: str) -> bool:
        """Return whether `run` would return a recorded result. Seed 003, section 4.

        Args:
            address: the step.
        """
        return decide(self._tenure.steps.get(address), self._mode) is Decision.REUSE

    def has_completed_event(self, address: str) -> bool:
        """Return whether a step is done, in any mode.

        Args:
            address: the step.
        """
        return is_done(self._tenure.steps.get(address))

    async def get_event_result(self, address: str, returns: Any = None) -> Any | None:
        """Return the recorded result of a step that is done, a new object; else None.

        Args:
            address: the step.
            returns: the type that the result has. None: models come as plain data.

        Raises:
            ResultMissing: the result was an artifact that was deleted.
            UnreadableResult: the result is not of that type.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        step = self._tenure.steps.get(address)
        if step is None or not is_done(step):
            return None
        data = await self._steps.data(step)
        return data if returns is None else self._steps.load(step, data, type_codec(returns))

    @overload
    async def run(
        self,
        address: str,
        step: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        event_type: str = EventType.STEP,
        artifact: bool = False,
        repeatable: bool = False,
        returns: Any = None,
        **kwargs: Any,
    ) -> T: ...

    @overload
    async def run(
        self,
        address: str,
        step: Callable[..., T],
        /,
        *args: Any,
        event_type: str = EventType.STEP,
        artifact: bool = False,
        repeatable: bool = False,
        returns: Any = None,
        **kwargs: Any,
    ) -> T: ...

    async def run(
        self,
        address: str,
        step: Callable[..., Any],
        /,
        *args: Any,
        event_type: str = EventType.STEP,
        artifact: bool = False,
        repeatable: bool = False,
        returns: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Run a step once: call it and record its result, or return the recorded result.

            flights = await run.run("search", search, "Oslo", limit=3)

        A step is known by its name alone: with other arguments it still returns what is recorded.
        What chooses steps and arguments, such as a model call, has to be a step itself.

        A result may be made of pydantic models, dataclasses and plain data. Models need a declared
        type: the step's return annotation, or `returns`. A result beyond 256 KiB becomes an
        artifact. The store's `redact=` is applied to what is recorded. A step that raised before is
        run again; in VALIDATION, every step is.

        Args:
            address: the step's name, the same in every run: "plan", "plan::search::2". In one run,
                every step has a different one.
            step: the function to call, plain or async. A plain one holds up the event loop until it
                returns; `run("search", asyncio.to_thread, search, "Oslo")` calls it in a thread.
            args: passed to the step.
            kwargs: passed to the step. Bind arguments that have the name of an option of this
                method: `functools.partial(search, artifact=...)`.
            event_type: an `EventType`, or another text.
            artifact: the result is an artifact, whatever its size.
            repeatable: running it twice does no harm, or it is made of recorded steps: then it is
                run again if its outcome is unknown.
            returns: the type of its result. None: as the step is annotated.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            ExecutionTakenOver: another process has entered the execution, or deleted it.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored.
            ConfigurationError: the execution is not entered, or was left.
            StepUnknown: it began before, and its result is not recorded. It was not called.
            UnreadableResult: the recorded result is not of the declared type.
            ResultMissing: the recorded result was an artifact that was deleted.

        Errors after the call leave its outcome unknown, but for what the step raises, which is
        recorded and raised. ConfigurationError also means that a step of this address has run here
        before.

        Examples:
            >>> async def search(city: str) -> list[str]:
            ...     return [f"SK to {city}"]
            >>> async with store.recovery.execution("trip-1") as run:
            ...     await run.run("search", search, "Oslo")
            ['SK to Oslo']
        """
        checked_id(address, "address")
        if not callable(step):
            raise ConfigurationError(
                f"step {address!r:.80} is {type(step).__name__}: run() takes the function "
                "and its arguments, as in run('search', search, 'Oslo')"
            )
        self._check_entered()
        recorded = self._tenure.steps.get(address)
        decision = decide(recorded, self._mode)
        if recorded is not None and decision is Decision.REUSE:
            declared = _declared(step, returns) if recorded.type else None
            return await self._steps.reuse(recorded, declared)
        with self._steps.using(address):
            if decision is Decision.UNKNOWN:
                # This process may not know how its own append ended: ask the log.
                recorded = await self._tenure.refreshed(address)
                decision = decide(recorded, self._mode, repeatable=repeatable)
            if recorded is not None and decision is Decision.REUSE:
                declared = _declared(step, returns) if recorded.type else None
                return await self._steps.replay(recorded, declared)
            if recorded is not None and decision is Decision.UNKNOWN:
                raise StepUnknown(self.state_id, address, recorded.attempt, recorded.error)
            is_opaque = artifact and self._steps.artifacts.codec == "pickle"
            declared = None if is_opaque else _declared(step, returns)

            async def call() -> Any:
                made = step(*args, **kwargs)
                return await made if inspect.isawaitable(made) else made

            work = Work(address, str(event_type), artifact, is_opaque, declared)
            if self._mode is ReplayMode.VALIDATION:
                return await self._steps.validate(work, recorded, call)
            return await self._steps.execute(work, call)

    async def ask(self, address: str, request: Any = None, *, returns: Any = None) -> Any:
        """Return what a user answered at this address; until then, stop the execution here.

        Stopping is recorded, with a checkpoint and the status PAUSED, and raises ExecutionPaused.
        Any process may then call `store.recovery.answer`, or `store.answer` with the item of
        `store.waiting()`. The next owner that takes the execution over comes here again and goes
        on.

        Args:
            address: the question's name, the same in every run.
            request: what is asked; a model is recorded as plain data.
            returns: the type of the answer. None: as it was given, models as plain data.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            ExecutionTakenOver: another process has entered the execution, or deleted it.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored.
            ConfigurationError: the execution is not entered, or was left.
            ExecutionPaused: there is no answer yet.
            UnreadableResult: the answer is not of the declared type.

        Examples:
            >>> try:
            ...     async with store.recovery.execution("trip-1") as run:
            ...         await run.ask("approve", {"fare": 120})
            ... except foldlog.recovery.ExecutionPaused as paused:
            ...     await store.recovery.answer(paused.state_id, paused.address, "yes")
            True
            >>> async with store.recovery.execution("trip-1") as run:
            ...     await run.ask("approve", {"fare": 120})
            'yes'
        """
        checked_id(address, "address")
        self._check_entered()
        with self._steps.using(address):
            if self._mode is ReplayMode.VALIDATION:
                recorded = self._tenure.steps.get(address)
            else:
                recorded = await self._tenure.refreshed(address)
            if recorded is None or not is_done(recorded):
                recorded = await self._asked(address, request, recorded)
            declared = None if returns is None else type_codec(returns)
            return await self._steps.replay(recorded, declared)

    async def confirm(self, address: str, result: Any = None) -> None:
        """Record that a step whose outcome was unknown has happened, with its result.

        Args:
            address: the step.
            result: a model, or its fields as plain data.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            ExecutionTakenOver: another process has entered the execution, or deleted it.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored.
            ConfigurationError: the execution is not entered, or was left.

        ConfigurationError also means that the outcome is not unknown, or that this is a VALIDATION.
        """
        given = as_plain(result, "result")
        data = self._tenure.redaction.data("Execution.confirm", states.DONE, address, result=given)
        await self._settle(address, Done(address, 0.0, _encoded(data, "result"), type=PLAIN_DATA))

    async def retract(self, address: str) -> None:
        """Record that a step whose outcome was unknown has not happened, so that `run` calls it.

        Args:
            address: the step.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            ExecutionTakenOver: another process has entered the execution, or deleted it.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored.
            ConfigurationError: the execution is not entered, or was left.

        ConfigurationError also means that the outcome is not unknown, or that this is a VALIDATION.
        """
        await self._settle(address, Retracted(address))

    def to_snapshot(
        self, status: StateStatus = StateStatus.RUNNING, metadata: StateMetadata | None = None
    ) -> StateSnapshot:
        """Return the state as it is now, with the history of its steps. Seed 003, section 4.

        Args:
            status: the snapshot's status.
            metadata: None: the execution's.
        """
        snapshot = self._tenure.snapshot.model_copy(update={"status": status}, deep=True)
        if metadata is not None:
            snapshot.metadata = metadata
        return with_steps(snapshot, self._tenure.steps)

    async def save_checkpoint(
        self, status: StateStatus = StateStatus.RUNNING, metadata: StateMetadata | None = None
    ) -> bool:
        """Save storage, metadata and status, and return True; steps are recorded already.

        Args:
            status: how it stands.
            metadata: what the execution is found by from now on. None: as it is.

        Returns:
            False in VALIDATION, which saves nothing.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            ExecutionTakenOver: another process has entered the execution, or deleted it.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored.
            ConfigurationError: the execution is not entered, or was left.
        """
        self._check_entered()
        if self._mode is ReplayMode.VALIDATION:
            return False
        if metadata is not None:
            self._tenure.snapshot.metadata = metadata.model_copy(deep=True)
        return await self._tenure.write(status=status)

    async def put_artifact(self, name: str, artifact: Any) -> str:
        """Save an artifact that the execution knows by a name; return its id.

        The name is recorded at once; the rest of a checkpoint only if they are automatic after
        artifacts. VALIDATION saves nothing.

        Args:
            name: the name.
            artifact: bytes, text, data that the log can hold, or what the codec takes.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            ExecutionTakenOver: another process has entered the execution, or deleted it.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored.
            ConfigurationError: the execution is not entered, or was left.
        """
        self._check_entered()
        if self._mode is ReplayMode.VALIDATION:
            return self._steps.artifacts.artifact_id(artifact)
        artifact_id = await self._steps.artifacts.add_artifact(artifact)
        # At once: the garbage collection may come before the next checkpoint.
        await self._tenure.refer(name, artifact_id)
        if self._steps.auto_checkpoint.applies_to("", is_artifact=True):
            await self.save_checkpoint()
        return artifact_id

    async def get_artifact(self, name: str) -> Any | None:
        """Return the artifact of a name, or None.

        Args:
            name: the name, as in `put_artifact`.

        Raises:
            ConfigurationError: it is a pickle: an execution with `artifacts=` of that codec loads
                it.
            LogUnavailable, LogCorrupt: the log did not answer, or the bytes are not whole.
            StoreClosed: the store is closed.
        """
        artifact_id = self._tenure.snapshot.artifact_refs.get(name)
        return (
            None if artifact_id is None else await self._steps.artifacts.load_artifact(artifact_id)
        )

    async def _asked(self, address: str, request: Any, before: Step | None) -> Step:
        """Stop here; or return the answer, if it has come in the meantime."""
        if self._mode is not ReplayMode.VALIDATION:
            given = as_plain(request, "request")
            data = self._tenure.redaction.data(
                "Execution.ask", states.WAITING, address, request=given
            )
            waiting = Waiting(address, _encoded(data, "request"))
            if not await self._tenure.write(
                waiting,
                status=StateStatus.PAUSED,
                when=lambda state: not is_done(state.steps.get(address)),
            ):
                answered = await self._tenure.refreshed(address)
                if answered is not None:
                    return answered
            asked = ("waiting", bytes(waiting.request))
            if before is None or (before.phase, before.request) != asked:
                await self._steps.publish(address, EventType.USER, ExecutionStatus.AWAITING)
        raise ExecutionPaused(self.state_id, address, request)

    async def _settle(self, address: str, said: Done | Retracted) -> None:
        """Record the outcome of a step, if it is unknown on the log, too."""
        self._check_entered()
        if self._mode is ReplayMode.VALIDATION:
            raise ConfigurationError("a VALIDATION records nothing: the execution is another's")
        if address in self.unknown:
            if await self._tenure.write(
                said, when=lambda state: is_unknown(state.steps.get(address))
            ):
                return
            await self._tenure.refreshed(address)
        raise ConfigurationError(
            f"the outcome of step {address!r:.80} is not unknown: only a step for which run() "
            "raised StepUnknown can be confirmed or retracted"
        )

    def _check_entered(self) -> None:
        if self._phase not in ("open", "entered"):
            raise ConfigurationError(
                "an Execution is used within `async with`: before, it has no owner; "
                "afterwards, how it ended is on record"
            )


def _declared(step: Callable[..., Any], returns: Any) -> TypeCodec[Any] | None:
    return type_codec(returned_type(step) if returns is None else returns)


def _encoded(data: Any, path: str) -> msgspec.Raw:
    return msgspec.Raw(codec.encode(data, path))
