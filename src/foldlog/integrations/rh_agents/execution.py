"""Executions: runs whose steps have addresses, with a snapshot, artifacts and an event bus."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, Literal, Protocol, Self

from pydantic.dataclasses import dataclass

from foldlog import codec
from foldlog.errors import LogUnavailable, Misuse
from foldlog.integrations.rh_agents.artifacts import ArtifactBackend
from foldlog.integrations.rh_agents.checkpoints import Checkpoint
from foldlog.integrations.rh_agents.migrations import Migrations
from foldlog.integrations.rh_agents.models import (
    AutoCheckpointConfig,
    EventBus,
    EventType,
    ExecutionEvent,
    ExecutionStatus,
    ReplayMode,
    StateMetadata,
    StateSnapshot,
    StateStatus,
)
from foldlog.integrations.rh_agents.snapshots import steps_of, with_steps
from foldlog.integrations.rh_agents.validation import Comparison, Validation
from foldlog.opening import Store
from foldlog.opening.states import ARTIFACT, read_state
from foldlog.runs import (
    ResultMissing,
    Run,
    RunCancelled,
    RunPaused,
    RunTakenOver,
    StepUnknown,
    UnreadableResult,
)
from foldlog.runs.errors import consists_of
from foldlog.runs.results import (
    Result,
    dump_result,
    load_result,
    message_of,
    shortened,
)
from foldlog.runs.steps import called
from foldlog.store.belonging import add_belongings
from foldlog.store.core import core_of
from foldlog.subjects import checked_id
from foldlog.values import returned_type, type_codec
from foldlog_projections.rh_agents import states
from foldlog_projections.runs import runs
from foldlog_projections.runs.runs import Step


@dataclass(frozen=True)
class StoredArtifact:
    """What is on record of a step whose result is an artifact; `type` as in `Step.type`."""

    artifact_id: str
    type: str = ""


class Executions(Protocol):
    """What makes executions: a `StateBackend`."""

    async def exists(self, state_id: str) -> bool:
        """Return whether there is such a state."""

    async def save_state(self, snapshot: StateSnapshot) -> bool:
        """Make this the snapshot of its state."""

    def execution(self, *args: Any, **options: Any) -> Execution:
        """Return an execution to be entered."""


class Execution:
    """One execution of a pipeline, made by `StateBackend.execution` and entered by `async with`.

    It is the run of the state's id, with a snapshot: how it is owned, cancelled, paused and asked
    is said at `Store.run`. Leaving records how it ended: COMPLETED; PAUSED where it waits for a
    person; FAILED if anything else propagates. One that is cancelled from outside of foldlog, or
    ends with its process, stays RUNNING. `await` enters it, too; then `close` leaves it.

    Attributes:
        state_id: the id under which `StateBackend.load_state` finds it.
        run: its run, once it is entered: `execution.run.inbox()`, `execution.run.usage(...)`.
        metadata: what it is found by; changes are saved with the next checkpoint.
    """

    state_id: str = ""

    def __init__(
        self,
        store: Store,
        state_id: str,
        *,
        metadata: StateMetadata | None,
        version: str | None,
        migrations: Migrations | None,
        republishes: bool,
        event_bus: EventBus | None,
        auto_checkpoint: AutoCheckpointConfig,
        artifacts: ArtifactBackend,
        session_id: str | None,
        run_options: dict[str, Any],
    ) -> None:
        self.state_id = state_id
        self.run: Run
        self._store = store
        self._given = metadata, version
        self._republishes = republishes
        self._event_bus = event_bus
        self._auto_checkpoint = auto_checkpoint
        self._artifacts = artifacts
        self._session_id = session_id
        self._run_options = run_options
        self._checkpoint = Checkpoint(store, state_id, migrations)
        self._comparison = Comparison()
        self._known: dict[str, Step] = {}
        self._phase: Literal["new", "open", "left"] = "new"

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
            state_backend: the `StateBackend` of a store.
            artifact_backend: where its artifacts go. None: those of `state_backend`.
            event_bus: an object with `publish(event)`, which hears of every step.
            replay_mode: NORMAL returns recorded results; VALIDATION compares.
            resume_from_address: this step and all that were first begun after it are run again.

        Raises:
            InvalidId: the id is empty.
            IncompatibleState: the state is of another version, and no migration leads to this one.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            Misuse: options that exclude each other.
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
            state_backend: the `StateBackend` of a store.
            artifact_backend: where its artifacts go. None: those of `state_backend`.
            event_bus: an object with `publish(event)`, which hears of every step.
            replay_mode: NORMAL returns recorded results; VALIDATION compares.
            resume_from_address: this step and all that were first begun after it are run again.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
            Misuse: options that exclude each other.
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
    def storage(self) -> dict[str, Any]:
        """Your data: saved with each checkpoint, restored when the execution is entered again."""
        return self._checkpoint.storage

    @property
    def metadata(self) -> StateMetadata:
        """What it is found by; changes are saved with the next checkpoint."""
        return self._checkpoint.snapshot.metadata

    @property
    def validation(self) -> Validation:
        """The findings of a VALIDATION so far."""
        return self._comparison.found(self._known)

    # --- entering and leaving ---------------------------------------------------------------------

    def __await__(self) -> Generator[Any, None, Self]:
        return self._open().__await__()

    async def __aenter__(self) -> Self:
        return self if self._phase == "open" else await self._open()

    async def _open(self) -> Self:
        if self._phase != "new":
            raise Misuse("an Execution is entered once; make another one to resume")
        state = await read_state(self._store, self.state_id)
        session_id = state.session_id or self._session_id or self.state_id
        if self._session_id not in (None, session_id):
            raise Misuse(f"state {self.state_id!r:.80} is of session {session_id!r:.80}")
        self._checkpoint.adopt(state)  # or refuse it, before anything is on record
        is_of_execution, is_of_run = state.is_of_execution, bool(state.session_id)
        self._known = await steps_of(self._store, self.state_id, state)
        name = state.run or self.state_id
        self.run = self._store.run(name, session_id=session_id, **self._run_options)
        await self._enter(is_of_execution, is_of_run)
        self._phase = "open"
        return self

    async def _enter(self, is_of_execution: bool, is_of_run: bool) -> None:
        """Open the run; what its state was of is of no account."""
        key = states.kind(self.state_id)
        await add_belongings(core_of(self._store), self.run.session_id, key)
        await self.run
        try:
            before, self._known = self._known, await self._steps_on_record()
            void = {name for name, step in before.items() if step.type == ARTIFACT}
            await self._checkpoint.begin(self.run, *self._given, void - {*self._known})
        except BaseException as error:
            await self.run.__aexit__(type(error), error, error.__traceback__)
            raise

    async def __aexit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is None:
            await self.close()
            return
        self._phase = "left"
        try:
            if isinstance(error, Exception) and not consists_of(error, RunPaused, RunTakenOver):
                waits = consists_of(error, RunPaused, StepUnknown)
                await self._checkpoint.save(StateStatus.PAUSED if waits else StateStatus.FAILED)
        finally:
            await self.run.__aexit__(kind, error, traceback)

    async def close(self) -> None:
        """Leave the execution: it is COMPLETED, and so is its run.

        Raises:
            RunTakenOver, RunCancelled: another owner has the run, or it was cancelled meanwhile.
            PayloadError, PayloadTooLarge, RedactionFailed: the checkpoint cannot be recorded.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored.
            Misuse: the execution is not entered, or was left.
        """
        self._check_open()
        self._phase = "left"
        try:
            await self._checkpoint.save(StateStatus.COMPLETED)
        except BaseException as error:
            await self.run.__aexit__(type(error), error, error.__traceback__)
            raise
        try:
            await self.run.close()
        except RunCancelled:
            await self._checkpoint.save(StateStatus.FAILED)
            raise

    # --- what is on record ------------------------------------------------------------------------

    @property
    def _steps(self) -> dict[str, Step]:
        """The steps on record: as they are in memory, else as they were when they last were."""
        found = self._store.peek(self._key, lambda run: dict(run.steps))
        self._known = self._known if found is None else found
        return self._known

    async def _learn(self) -> None:
        """Note what this store has recorded: memory may lack it until its push comes."""
        with suppress(LogUnavailable):  # what was recorded stands, and so does what was raised
            self._known = await self._store.view(self._key, lambda run: dict(run.steps))

    async def _steps_on_record(self) -> dict[str, Step]:
        return await self._store.view(self._key, lambda run: dict(run.steps), consistency="strong")

    @property
    def _key(self) -> Any:
        return runs.kind(self.run.session_id, self.run.name)

    def should_skip_event(self, address: str) -> bool:
        """Return whether `step` would return a recorded result. Seed 003, section 4.

        Args:
            address: the step.
        """
        return self.has_completed_event(address)

    def has_completed_event(self, address: str) -> bool:
        """Return whether a step is done, in any mode.

        Args:
            address: the step.
        """
        return is_done(self._steps.get(address))

    async def get_event_result(self, address: str, returns: Any = None) -> Any | None:
        """Return the recorded result of a step that is done, a new object; else None.

        Args:
            address: the step.
            returns: the type that the result has. None: models come as plain data.

        Raises:
            ResultMissing: the result is gone, or was an artifact that was deleted.
            UnreadableResult: the result is not of that type.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        step = self._steps.get(address)
        if step is None or not is_done(step):
            return None
        if step.type == ARTIFACT:
            return await self._artifact_of(step, returns)
        if step.blob or returns is not None:
            return await self.run.recorded(address, returns)
        return codec.decode(step.result)

    async def _artifact_of(self, step: Step, returns: Any) -> Any:
        stored = StoredArtifact(**codec.decode(step.result))
        data = await self._artifacts.load_artifact(stored.artifact_id)
        if data is None and not await self._artifacts.exists(stored.artifact_id):
            raise ResultMissing(self.run.session_id, self.run.name, step.step)
        if returns is None or not stored.type:
            return data
        try:
            return load_result(data, stored.type, type_codec(returns))
        except ValueError as error:
            names = self.run.session_id, self.run.name, step.step
            raise UnreadableResult(*names, stored.type, str(error)) from error

    # --- steps ------------------------------------------------------------------------------------

    async def step(
        self,
        address: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        event_type: str = EventType.STEP,
        artifact: bool = False,
        returns: Any = None,
        **options: Any,
    ) -> Any:
        """Do a step once: call a function and record its result, or return the recorded result.

            flights = await execution.step("search", search, "Oslo", limit=3)

        It is `Run.step` with these differences: a step is known by its address alone, so that a
        recorded result is returned whatever the arguments; the event bus hears of it; and in
        VALIDATION it is called again, its outcome compared, and nothing recorded.

        Args:
            address: the step's name, the same in every execution: "plan", "plan::search::2".
            function: what to call, plain or async.
            args: passed to the function.
            event_type: an `EventType`, or another text.
            artifact: the result is an artifact, which the snapshot refers to by the address.
            returns: the type of its result. None: as the function is annotated.
            options: those of `Run.step` (`repeatable`, `timeout`, `retries`), and keyword arguments
                for the function.

        Raises:
            RunCancelled: the run was cancelled. RunTakenOver: another owner has it.
            StepUnknown: it began before, and its result is not recorded. It was not called.
            UnreadableResult: the recorded result is not of the declared type.
            ResultMissing: the recorded result is gone.
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored.
            Misuse: the execution is not entered, or a step of that address has run here.

        What the function raises, and the event bus, is raised.

        Examples:
            >>> from foldlog.integrations.rh_agents import StateBackend
            >>> async def search(city: str) -> list[str]:
            ...     return [f"SK to {city}"]
            >>> async with StateBackend(store).execution("trip-1") as execution:
            ...     await execution.step("search", search, "Oslo")
            ['SK to Oslo']
        """
        declared = self._declared(address, function, returns)
        known = self._steps.get(address)
        is_artifact = known.type == ARTIFACT if known and is_done(known) else artifact
        given: list[Any] = []
        raised: list[Exception] = []
        began = time.perf_counter()

        @functools.wraps(function)
        async def call(*args: Any, **kwargs: Any) -> Any:
            await self._publish(address, event_type, ExecutionStatus.STARTED)
            try:
                given.append(await called(function, args, kwargs))
            except Exception as error:
                raised.append(error)
                raise
            return await self._stored(address, given[-1], declared) if is_artifact else given[-1]

        try:
            result = await self.run.step(
                address,
                call,
                *args,
                on_change="keep",
                returns=StoredArtifact if is_artifact else declared,
                kind=str(event_type),
                **options,
            )
        except Exception as error:
            await self._learn()
            if error in raised and not consists_of(error, RunPaused, StepUnknown):
                failed = {"message": shortened(message_of(error))}
                await self._publish(address, event_type, ExecutionStatus.FAILED, began, **failed)
            raise
        await self._learn()
        if not given:
            step = self._steps[address]
            if is_artifact:
                result = await self._artifact_of(step, declared)
            await self._recovered(address, step.kind, result)
            return result
        result = given[-1]
        await self._publish(address, event_type, ExecutionStatus.COMPLETED, began, result=result)
        if self._auto_checkpoint.applies_to(event_type, is_artifact=is_artifact):
            await self.save_checkpoint()
        return result

    def _declared(self, address: str, function: Any, returns: Any) -> Any:
        """The type of a step's result. Raises as `step` for what cannot be one."""
        checked_id(address, "address")
        self._check_open()
        if not callable(function):
            raise Misuse(f"step {address!r:.80} takes the function and its arguments")
        return returned_type(function) if returns is None else returns

    async def _stored(self, address: str, value: Any, declared: Any) -> StoredArtifact:
        """Save a result as an artifact of the execution."""
        is_opaque = self._artifacts.codec == "pickle"
        found = Result(value) if is_opaque else dump_result(value, type_codec(declared))
        artifact_id = await self._artifacts.add_artifact(found.data)
        await self._checkpoint.refer(address, artifact_id)
        return StoredArtifact(artifact_id, found.type)

    async def ask(self, address: str, request: Any = None, **options: Any) -> Any:
        """Return what a person answered at this address; until then, stop the execution here.

        It is `Run.ask`, which does not wait unless `wait=` says so: a checkpoint with the status
        PAUSED is saved, and RunPaused raised. `store.waiting()` has the question; once it is
        answered, the next one that enters the execution comes here again and goes on.

        Args:
            address: the question's name, the same in every execution.
            request: what is asked; a model is recorded as plain data.
            options: those of `Run.ask`: `returns`, `wait`, `timeout`, `default`.

        Raises:
            RunPaused: there is no answer yet. QuestionExpired: nobody answered in time.
            RunCancelled, RunTakenOver: the run was cancelled; another owner has it.
            UnreadableResult: the answer is not of the declared type.
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored.
            Misuse: the execution is not entered, or a step of that address has run here.

        Examples:
            >>> from foldlog.integrations.rh_agents import StateBackend
            >>> from foldlog.runs import RunPaused
            >>> backend = StateBackend(store)
            >>> try:
            ...     async with backend.execution("trip-1") as execution:
            ...         await execution.ask("approve", {"fare": 120})
            ... except RunPaused:
            ...     [item] = await store.waiting()
            ...     (await store.answer(item.id, "yes")).decision
            'answered'
            >>> async with backend.execution("trip-1") as execution:
            ...     await execution.ask("approve", {"fare": 120})
            'yes'
        """
        checked_id(address, "address")
        self._check_open()
        known = self._steps.get(address)
        try:
            answer = await self.run.ask(address, request, **{"wait": 0, **options})
        except RunPaused:
            await self._learn()
            await self.save_checkpoint(StateStatus.PAUSED)
            asked = self._steps.get(address)
            if known is None or asked is None or known.question != asked.question:
                await self._publish(address, EventType.USER, ExecutionStatus.AWAITING)
            raise
        await self._learn()
        if is_done(known):
            await self._recovered(address, EventType.USER, answer)
        return answer

    async def _publish(
        self,
        address: str,
        event_type: str,
        status: ExecutionStatus,
        began: float | None = None,
        **fields: Any,
    ) -> None:
        """Tell the event bus, if there is one, of a step; `began` by the clock of performance."""
        if self._event_bus is not None:
            seconds = 0.0 if began is None else time.perf_counter() - began
            event = ExecutionEvent(
                self.state_id, address, event_type, status, execution_time=seconds, **fields
            )
            taken = self._event_bus.publish(event)
            if inspect.isawaitable(taken):
                await taken

    async def _recovered(self, address: str, event_type: str, result: Any) -> None:
        if self._republishes:
            status = ExecutionStatus.RECOVERED
            await self._publish(address, event_type, status, result=result, is_replayed=True)

    # --- snapshots and artifacts ------------------------------------------------------------------

    def to_snapshot(
        self, status: StateStatus = StateStatus.RUNNING, metadata: StateMetadata | None = None
    ) -> StateSnapshot:
        """Return the state as it is now, with the history of its steps. Seed 003, section 4.

        Args:
            status: the snapshot's status.
            metadata: None: the execution's.
        """
        snapshot = self._checkpoint.snapshot.model_copy(update={"status": status}, deep=True)
        if metadata is not None:
            snapshot.metadata = metadata
        return with_steps(snapshot, self._steps)

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
            RunTakenOver: another owner has entered the execution, or its state was deleted.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored.
            Misuse: the execution is not entered, or was left.
        """
        self._check_open()
        if metadata is not None:
            self._checkpoint.snapshot.metadata = metadata.model_copy(deep=True)
        await self._checkpoint.save(status)
        return True

    async def put_artifact(self, name: str, artifact: Any) -> str:
        """Save an artifact that the execution knows by a name; return its id.

        The name is recorded at once; the rest of a checkpoint only if they are automatic after
        artifacts. VALIDATION saves nothing.

        Args:
            name: the name.
            artifact: bytes, text, data that the log can hold, or what the codec takes.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            RunTakenOver: another owner has entered the execution, or its state was deleted.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored.
            Misuse: the execution is not entered, or was left.
        """
        self._check_open()
        artifact_id = await self._artifacts.add_artifact(artifact)
        # At once: the garbage collection may come before the next checkpoint.
        await self._checkpoint.refer(name, artifact_id)
        if self._auto_checkpoint.applies_to("", is_artifact=True):
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
        artifact_id = self._checkpoint.snapshot.artifact_refs.get(name)
        return None if artifact_id is None else await self._artifacts.load_artifact(artifact_id)

    def _check_open(self) -> None:
        if self._phase != "open":
            raise Misuse(
                "an Execution is used within `async with`: before, it has no owner; "
                "afterwards, how it ended is on record"
            )


def is_done(step: Step | None) -> bool:
    """Whether a step has a result on record."""
    return step is not None and step.phase == "done"
