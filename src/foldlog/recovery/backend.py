"""The StateBackend: snapshots of executions, saved and found again."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Final

from foldlog.errors import ConfigurationError, PastErased, PayloadError
from foldlog.log.port import Record
from foldlog.recovery.artifacts import ArtifactBackend
from foldlog.recovery.execution import Execution
from foldlog.recovery.migrations import Migrations
from foldlog.recovery.models import (
    AutoCheckpointConfig,
    EventBus,
    ReplayMode,
    StateMetadata,
    StateSnapshot,
    StateStatus,
)
from foldlog.recovery.questions import Questions
from foldlog.recovery.snapshots import event_of, listing, restored, saving, valued
from foldlog.recovery.stepping import Stepping
from foldlog.recovery.tenure import Tenure
from foldlog.recovery.writing import Writing, listed_states, read_state, write_state
from foldlog.store.belonging import add_belongings
from foldlog.store.clearing import clear
from foldlog.store.core import Capability, core_of
from foldlog.store.operation import operation
from foldlog.store.store import BaseStore
from foldlog.subjects import checked_id
from foldlog_projections import states
from foldlog_projections.states import State

_AT_ONCE: Final = 64
"""States looked at side by side."""


_operation: Final = functools.partial(operation, prefix="recovery.")


class StateBackend(Capability):
    """Executions and their snapshots, made by `store.recovery`. Lives as long as its store.

    Every call raises also where the store degrades: a checkpoint that only seems to exist is worse
    than none. Inside `store.atomic()` states are saved and answered with the block; deleting acts
    at once, and an `Execution` is refused there, because what it does is not undone.
    """

    def __init__(
        self, store: BaseStore, artifacts: ArtifactBackend, migrations: Migrations | None = None
    ) -> None:
        super().__init__(core_of(store))
        self.artifacts = artifacts
        self._store = store
        self._questions = Questions(store)
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
        snapshot = restored(state_id, await read_state(self._store, state_id))
        if snapshot is None or self._migrations is None:
            return snapshot
        return self._migrations.migrate(snapshot)

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
    async def history(self, state_id: str) -> list[dict[str, Any]]:
        """Return the steps of an execution, in the order in which they first began.

        Each is an event of a snapshot's history. [] for a state without steps.

        Args:
            state_id: the state.

        Raises:
            InvalidId: the id is empty.
            IncompatibleState: the state is of another version, and no migration leads to this one.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        state = await read_state(self._store, state_id)
        return [event_of(step) for step in state.steps.values()]

    async def watch(self, state_id: str) -> AsyncGenerator[StateSnapshot]:
        """Yield the snapshot as it is now, then whenever it has changed.

        Several changes may come as one. It waits for a state that is not there, or was deleted, and
        for the end of an outage. It never ends by itself: use `contextlib.aclosing`.

        Args:
            state_id: the state.

        Raises:
            InvalidId: the id is empty.
            IncompatibleState: the state is of another version, and no migration leads to this one.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        advances = self._store.advances(states.kind(state_id))
        async with aclosing(advances):
            async for _ in advances:
                snapshot = await self.load_state(state_id)
                if snapshot is not None:
                    yield snapshot

    @_operation()
    async def list_states(
        self,
        tags: Sequence[str] | None = None,
        status: StateStatus | None = None,
        pipeline_name: str | None = None,
        limit: int = 100,
        parent_state_id: str | None = None,
    ) -> list[StateSnapshot]:
        """Return snapshots, the one written last first.

        That is by `updated_at` as it was saved, and for executions by their last step.

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
        wanted = [
            listed.state_id
            for listed in await listed_states(self._store)
            if set(tags or ()) <= set(listed.tags)
            and status in (None, listed.status)
            and pipeline_name in (None, listed.pipeline_name)
            and parent_state_id in (None, listed.parent_state_id)
        ]
        times = await self._written(wanted)
        newest_first = sorted(times, key=lambda state_id: times[state_id], reverse=True)
        found: list[StateSnapshot] = []
        for state_id in newest_first:
            if len(found) == limit:
                break
            snapshot = await self.load_state(state_id)
            if snapshot is not None:
                found.append(snapshot)
        return found

    @_operation(writes=True)
    async def delete_state(self, state_id: str) -> bool:
        """Remove a state with its history; return whether there was one. Artifacts stay.

        Args:
            state_id: the state.

        Raises:
            InvalidId: the id is empty.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: it may remain; delete again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        [held] = await clear(self._core, states.kind(state_id))
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
        owner: str | None = None,
        session_id: str | None = None,
    ) -> Execution:
        """Return an execution to be entered: `async with store.recovery.execution("id") as run:`.

        Entering begins it, or takes it over from its last owner.

        Args:
            state_id: None: a new one.
            metadata: what it is found by. None: as it was.
            version: of the schema of what `storage` holds. None: as it was; at first the current
                one of the migrations, or 1.0.0.
            replay_mode: NORMAL returns recorded results. VALIDATION runs every step again and
                compares; it takes nothing over and records nothing.
            resume_from_address: this step and all that were first begun after it are run again.
                Asking twice is the same as asking once, until the step has begun anew.
            event_bus: an object with `publish(event)`, plain or async, which hears of every step.
            auto_checkpoint_config: when it saves checkpoints by itself. None: at the end.
            artifacts: where its artifacts go; None: `store.recovery.artifacts`.
            owner: a name for readers of the log. None: host and process.
            session_id: the session that it belongs to, and is cleared with. Its artifacts stay
                until `collect_garbage`.

        Raises:
            InvalidId: the state id is empty.
            ConfigurationError: options that exclude each other. Entering raises it, too: there is
                no such step or, in VALIDATION, no such execution; or the state was saved by
                something else, with a history that no execution made.
            IncompatibleState: entering: the state is of another version, and no migration leads
                here.
            AppendConflict: entering: another process takes it over at this moment.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: entering: the log did not
                answer.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.

        Examples:
            >>> async def book(flight: str) -> str:
            ...     print("booking", flight)
            ...     return f"{flight}: booked"
            >>> for attempt in range(2):
            ...     async with store.recovery.execution("trip-1") as run:
            ...         await run.run("book", book, "SK 4035")
            booking SK 4035
            'SK 4035: booked'
            'SK 4035: booked'
        """
        if replay_mode is ReplayMode.VALIDATION and resume_from_address is not None:
            raise ConfigurationError(
                "resume_from_address= and VALIDATION: a validation begins with the first step"
            )
        state_id = str(uuid.uuid4()) if state_id is None else checked_id(state_id, "state_id")
        owner = f"{socket.gethostname()}:{os.getpid()}" if owner is None else owner
        tenure = Tenure(
            self._store, state_id, owner, metadata, version, self._migrations, session_id
        )
        config = auto_checkpoint_config or AutoCheckpointConfig()
        steps = Stepping(tenure, artifacts or self.artifacts, event_bus, replay_mode, config)
        return Execution(tenure, steps, resume_from_address)

    @_operation(writes=True)
    async def answer(self, state_id: str, address: str, value: Any) -> bool:
        """Answer what an execution asks at an address; return whether it was waiting there.

        The first answer stands; every other caller, in any process, gets False.

        Args:
            state_id: the execution.
            address: where it asks.
            value: the answer. A model is recorded as plain data, which `Execution.ask(returns=...)`
                reads.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
            LogCorrupt: the log cannot be read. Nothing was stored.
        """
        return await self._questions.settle(
            state_id, address, value, lambda step: step is not None and step.phase == "waiting"
        )

    async def _save(
        self, snapshot: StateSnapshot, method: str, session_id: str | None, *, existing: bool
    ) -> bool:
        value = valued(snapshot, self._core.redaction, method)

        def decide(state: State, head: int) -> Writing | None:
            if existing and state.value is None:
                return None
            return Writing(saving(state, value), listing(state, value))

        await add_belongings(self._core, session_id, states.kind(value["state_id"]))
        return await write_state(self._store, value["state_id"], decide)

    async def _written(self, state_ids: Sequence[str]) -> dict[str, tuple[float, int]]:
        """When each state was written last; those that are gone are left out."""
        times: dict[str, tuple[float, int]] = {}
        for start in range(0, len(state_ids), _AT_ONCE):
            some = state_ids[start : start + _AT_ONCE]
            records = await asyncio.gather(*map(self._last, some))
            for state_id, record in zip(some, records, strict=True):
                if record is not None:
                    times[state_id] = (record.envelopes[-1].ts, record.seq)
        return times

    async def _last(self, state_id: str) -> Record | None:
        """The last record of a state; None if it is gone, or of the past and removed since."""
        try:
            return await self._core.forked_log.last(self._core.subject(states.kind, state_id))
        except PastErased:
            return None
