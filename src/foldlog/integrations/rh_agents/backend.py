"""The StateBackend: snapshots of executions, saved and found again."""

from __future__ import annotations

import datetime as dt
import functools
import uuid
from collections.abc import Sequence
from typing import Any, Final

from foldlog.errors import Misuse, PayloadError
from foldlog.integrations.rh_agents.artifacts import ArtifactBackend
from foldlog.integrations.rh_agents.execution import Execution
from foldlog.integrations.rh_agents.migrations import Migrations
from foldlog.integrations.rh_agents.models import (
    AutoCheckpointConfig,
    EventBus,
    ReplayMode,
    StateMetadata,
    StateSnapshot,
    StateStatus,
)
from foldlog.integrations.rh_agents.snapshots import (
    Value,
    restored,
    steps_of,
    valued,
    with_steps,
    write_state,
)
from foldlog.integrations.rh_agents.validating import Validating
from foldlog.opening import Store
from foldlog.opening.states import listed_states, read_state
from foldlog.store.belonging import add_belongings
from foldlog.store.clearing import clear
from foldlog.store.core import Capability, core_of
from foldlog.store.operation import operation
from foldlog.subjects import checked_id
from foldlog_projections.rh_agents import states
from foldlog_projections.rh_agents.states import State
from foldlog_projections.runs import runs

_operation: Final = functools.partial(operation, prefix="rh_agents.")


class StateBackend(Capability):
    """Executions and their snapshots in a store. Lives as long as the store.

    Every call raises also where the store degrades: a checkpoint that only seems to exist is worse
    than none. Inside `store.atomic()` states are saved with the block; deleting acts at once, and
    an `Execution` is refused there, because what it does is not undone.

    Args:
        store: an open store.
        artifacts: where artifacts go. None: `ArtifactBackend(store)`.
        migrations: take each state to this program's version when it is loaded.
    """

    def __init__(
        self,
        store: Store,
        artifacts: ArtifactBackend | None = None,
        migrations: Migrations | None = None,
    ) -> None:
        super().__init__(core_of(store))
        self.artifacts: ArtifactBackend = artifacts or ArtifactBackend(store)
        self._store = store
        self._migrations = migrations

    def with_migrations(self, migrations: Migrations) -> StateBackend:
        """Return the same states, each migrated to this program's version when it is loaded.

        Args:
            migrations: the steps from version to version.
        """
        return type(self)(self._store, self.artifacts, migrations)

    @_operation(writes=True)
    async def save_state(self, snapshot: StateSnapshot, *, session_id: str | None = None) -> bool:
        """Make this the snapshot of its state; what changed is appended. Returns True.

        The last of several concurrent saves stands. The history of an execution's state is that of
        its recorded steps, not that of the snapshot.

        Args:
            snapshot: the snapshot; or another library's object with the same fields and a
                `model_dump`.
            session_id: the session that the state belongs to, and is cleared with.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
            LogCorrupt: the log cannot be read. Nothing was stored.
        """
        return await self._save(snapshot, "StateBackend.save_state", session_id, existing=False)

    @_operation(writes=True)
    async def update_state(self, snapshot: StateSnapshot) -> bool:
        """Save a snapshot and return True, if there is such a state; else return False.

        Args:
            snapshot: the snapshot; or another library's object with the same fields and a
                `model_dump`.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
            LogCorrupt: the log cannot be read. Nothing was stored.
        """
        return await self._save(snapshot, "StateBackend.update_state", None, existing=True)

    @_operation()
    async def load_state(self, state_id: str) -> StateSnapshot | None:
        """Return the snapshot as of now, or None if there is no such state.

        Args:
            state_id: the state.

        Raises:
            InvalidId: the id is empty.
            IncompatibleState: the state is of another version, and no migration leads to this one.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        state = await read_state(self._store, state_id)
        snapshot, of_execution = restored(state_id, state), state.is_of_execution
        if snapshot is None:
            return None
        if of_execution:
            snapshot = with_steps(snapshot, await steps_of(self._store, state_id, state))
        return snapshot if self._migrations is None else self._migrations.migrate(snapshot)

    @_operation()
    async def exists(self, state_id: str) -> bool:
        """Return whether there is such a state.

        Args:
            state_id: the state.

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return (await read_state(self._store, state_id)).value is not None

    @_operation()
    async def list_states(
        self,
        tags: Sequence[str] | None = None,
        status: StateStatus | None = None,
        pipeline_name: str | None = None,
        limit: int = 100,
        parent_state_id: str | None = None,
    ) -> list[StateSnapshot]:
        """Return snapshots, the one updated last first, by `updated_at`.

        Args:
            tags: only states that have all of these.
            status: only states of this status.
            pipeline_name: only states of this pipeline.
            limit: how many at most.
            parent_state_id: only states derived from this one.

        Raises:
            PayloadError: the limit is negative.
            IncompatibleState: a state is of another version, and no migration leads to this one.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        if limit < 0:
            raise PayloadError("limit", f"{limit} is negative")
        times: dict[str, float] = {}
        for listed in reversed(await listed_states(self._store)):
            if (
                set(tags or ()) <= set(listed.tags)
                and status in (None, listed.status)
                and pipeline_name in (None, listed.pipeline_name)
                and parent_state_id in (None, listed.parent_state_id)
            ):
                value = (await read_state(self._store, listed.state_id)).value
                times[listed.state_id] = _seconds(value)
        found: list[StateSnapshot] = []
        for state_id in sorted(times, key=lambda state_id: times[state_id], reverse=True):
            if len(found) == limit:
                break
            snapshot = await self.load_state(state_id)
            if snapshot is not None:
                found.append(snapshot)
        return found

    @_operation(writes=True)
    async def delete_state(self, state_id: str) -> bool:
        """Remove a state with its run's steps; return whether there was one. Artifacts stay.

        Args:
            state_id: the state.

        Raises:
            InvalidId: the id is empty.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: it may remain; delete again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        state = await read_state(self._store, state_id)
        if state.session_id:
            await clear(self._core, [runs.kind(state.session_id, state.run)])
        [held] = await clear(self._core, [states.kind(state_id)])
        return held.folded.state.value is not None

    def execution(
        self,
        state_id: str | None = None,
        *,
        metadata: StateMetadata | None = None,
        version: str | None = None,
        replay_mode: ReplayMode = ReplayMode.NORMAL,
        resume_from_address: str | None = None,
        event_bus: EventBus | None = None,
        auto_checkpoint_config: AutoCheckpointConfig | None = None,
        artifacts: ArtifactBackend | None = None,
        session_id: str | None = None,
        wait: float = 30.0,
        restart: bool = False,
    ) -> Execution:
        """Return an execution to be entered: `async with backend.execution("id") as execution:`.

        Entering opens its run: `execution.run`, of the state's id.

        Args:
            state_id: None: a new one.
            metadata: what it is found by. None: as it was.
            version: of the schema of what `storage` holds. None: as it was; at first the current
                one of the migrations, or 1.0.0.
            replay_mode: NORMAL returns recorded results. VALIDATION runs every step again and
                compares; it opens no run and records nothing.
            resume_from_address: this step and all that were first begun after it are run again.
                Asking twice is the same as asking once, until the step has begun anew.
            event_bus: an object with `publish(event)`, plain or async, which hears of every step.
            auto_checkpoint_config: when it saves checkpoints by itself. None: at the end.
            artifacts: where its artifacts go; None: those of this backend.
            session_id: the session of its run, with which it is cleared. None: the one it has; at
                first, a session of the state's id.
            wait: seconds to wait for another owner of the run.
            restart: begin anew: all steps are done again, also of a cancelled run.

        Raises:
            InvalidId: the state id is empty.
            Misuse: options that exclude each other. Entering raises it, too: in VALIDATION there is
                no such execution; the run is of another session; or the state was saved by
                something else, with a history that no execution made.
            RunBusy, RunCancelled: entering: another owner has the run; the run was cancelled.
            NotFound: entering: there is no step `resume_from_address`.
            IncompatibleState: entering: the state is of another version, and no migration leads
                here.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: entering: the log did not
                answer.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.

        Examples:
            >>> from foldlog.integrations.rh_agents import StateBackend
            >>> async def book(flight: str) -> str:
            ...     print("booking", flight)
            ...     return f"{flight}: booked"
            >>> backend = StateBackend(store)
            >>> for attempt in range(2):
            ...     async with backend.execution("trip-1") as execution:
            ...         await execution.step("book", book, "SK 4035")
            booking SK 4035
            'SK 4035: booked'
            'SK 4035: booked'
        """
        if replay_mode is ReplayMode.VALIDATION and (restart or resume_from_address is not None):
            raise Misuse(
                "resume_from_address= or restart=, and VALIDATION: it begins with the first step"
            )
        made = Validating if replay_mode is ReplayMode.VALIDATION else Execution
        return made(
            self._store,
            str(uuid.uuid4()) if state_id is None else checked_id(state_id, "state_id"),
            metadata=metadata,
            version=version,
            migrations=self._migrations,
            republishes=replay_mode is ReplayMode.REPUBLISH_ALL,
            event_bus=event_bus,
            auto_checkpoint=auto_checkpoint_config or AutoCheckpointConfig(),
            artifacts=artifacts or self.artifacts,
            session_id=session_id,
            run_options={"wait": wait, "restart": restart, "redo_from": resume_from_address},
        )

    async def _save(
        self, snapshot: StateSnapshot, method: str, session_id: str | None, *, existing: bool
    ) -> bool:
        value = valued(snapshot, self._core.redaction, method)

        def change(state: State) -> tuple[list[Any], Value] | None:
            return None if existing and state.value is None else ([], value)

        await add_belongings(self._core, session_id, states.kind(value["state_id"]))
        return await write_state(self._store, value["state_id"], change)


def _seconds(value: Any) -> float:
    """When a snapshot was updated; 0 if it is gone, or says no time."""
    try:
        return dt.datetime.fromisoformat(value["updated_at"]).timestamp()
    except (KeyError, OverflowError, TypeError, ValueError):
        return 0.0
