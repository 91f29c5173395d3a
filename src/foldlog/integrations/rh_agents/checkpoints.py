"""An execution's snapshot: in memory, and on record while the execution has its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foldlog.envelope import Draft
from foldlog.errors import Misuse, RedactionFailed
from foldlog.integrations.rh_agents.migrations import Migrations
from foldlog.integrations.rh_agents.models import (
    SCHEMA_VERSION,
    StateMetadata,
    StateSnapshot,
    StateStatus,
)
from foldlog.integrations.rh_agents.snapshots import (
    Value,
    native,
    now,
    restored,
    valued,
    write_state,
)
from foldlog.runs import Run, RunTakenOver
from foldlog.store.core import core_of
from foldlog.store.payloads import encode
from foldlog.store.store import BaseStore
from foldlog_projections.rh_agents import states
from foldlog_projections.rh_agents.states import OfRun, State

_METHOD = "Execution.save_checkpoint"


class Checkpoint:
    """The snapshot of an execution. What is saved of it raises RunTakenOver where the run is
    another owner's, or was removed.

    Attributes:
        snapshot: as it is in memory.
    """

    def __init__(self, store: BaseStore, state_id: str, migrations: Migrations | None) -> None:
        self._store = store
        self._state_id = state_id
        self._migrations = migrations
        self._run: Run
        self.snapshot: StateSnapshot = self._new()

    @property
    def storage(self) -> dict[str, Any]:
        """The data of the program."""
        data: dict[str, Any] = self.snapshot.execution_state["storage"]["data"]
        return data

    def adopt(self, state: State) -> None:
        """Go on with the snapshot of a state. Raises Misuse for one of another shape."""
        snapshot = restored(self._state_id, state)
        if snapshot is None:
            snapshot = self._new()
        elif self._migrations is not None:
            snapshot = self._migrations.migrate(snapshot)
        inner = snapshot.execution_state
        history = inner.pop("history", None)
        storage = inner.setdefault("storage", {})
        data = storage.setdefault("data", {}) if isinstance(storage, dict) else None
        if not isinstance(data, dict) or (isinstance(history, dict) and history.get("events")):
            raise Misuse(
                f"state {self._state_id!r:.80} was saved by something else than an execution, "
                "which cannot go on with its history"
            )
        self.snapshot = snapshot

    async def begin(
        self, run: Run, metadata: StateMetadata | None, version: str | None, void: set[str]
    ) -> None:
        """Put on record that the run has the state; `void` are artifacts that steps gave no more.

        `metadata` and `version` are those given for it, None: as they were.
        """
        self._run = run
        draft = encode(states.kind, OfRun(run.session_id, run.name, run.token))

        def begun(state: State) -> tuple[list[Draft], Value]:
            if state.token > run.token and state.session_id == run.session_id:
                raise self._taken_over(state)
            self.adopt(state)
            if metadata is not None:
                self.snapshot.metadata = metadata.model_copy(deep=True)
            if version is not None:
                self.snapshot.version = version
            for name in void & {*self.snapshot.artifact_refs}:
                del self.snapshot.artifact_refs[name]
            return [draft], self._value(StateStatus.RUNNING)

        await write_state(self._store, self._state_id, begun, in_atomic="refuse")

    async def save(self, status: StateStatus) -> None:
        """Save the snapshot as it is in memory, with this status."""
        value = self._value(status)
        await self._write(lambda _: value)

    async def refer(self, name: str, artifact_id: str) -> None:
        """Save an artifact's name alone, ahead of the rest."""
        ref = native({name: artifact_id}, "artifact_refs")
        self.snapshot.artifact_refs |= ref

        def value(state: State) -> Value:
            saved: Value = state.value or {}  # there is one since the execution began
            return {**saved, "updated_at": now(), "artifact_refs": saved["artifact_refs"] | ref}

        await self._write(value)

    async def _write(self, value: Callable[[State], Value]) -> None:
        def change(state: State) -> tuple[list[Draft], Value]:
            if (state.session_id, state.token) != (self._run.session_id, self._run.token):
                raise self._taken_over(state)
            return [], value(state)

        await write_state(self._store, self._state_id, change, in_atomic="refuse")

    def _taken_over(self, state: State) -> RunTakenOver:
        owner = "another owner" if state.session_id else ""
        return RunTakenOver(self._run.session_id, self._run.name, owner)

    def _new(self) -> StateSnapshot:
        """The snapshot of a new execution, at the version of this program."""
        return StateSnapshot(
            state_id=self._state_id,
            created_at=now(),
            updated_at=now(),
            version=SCHEMA_VERSION if self._migrations is None else self._migrations.current,
            status=StateStatus.RUNNING,
            execution_state={"storage": {"data": {}}},
        )

    def _value(self, status: StateStatus) -> Value:
        self.snapshot.status = status
        self.snapshot.updated_at = now()
        value = valued(self.snapshot, core_of(self._store).redaction, _METHOD)
        storage = value["execution_state"].get("storage")
        if not isinstance(storage, dict) or not isinstance(storage.get("data"), dict):
            raise RedactionFailed(states.SAVED, _METHOD, "storage has to stay a mapping")
        return value
