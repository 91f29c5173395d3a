"""One owner's tenure of an execution: it may write until another owner takes over."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

import msgspec

from foldlog.envelope import Draft
from foldlog.errors import ConfigurationError, RedactionFailed
from foldlog.recovery.errors import ExecutionTakenOver
from foldlog.recovery.migrations import Migrations
from foldlog.recovery.models import SCHEMA_VERSION, StateMetadata, StateSnapshot, StateStatus
from foldlog.recovery.questions import begun
from foldlog.recovery.results import StepRedaction
from foldlog.recovery.snapshots import Value, listing, native, now, restored, saving, valued
from foldlog.recovery.writing import Writing, read_state, write_state
from foldlog.store.belonging import add_belongings
from foldlog.store.core import core_of
from foldlog.store.payloads import encode
from foldlog.store.store import BaseStore
from foldlog_projections import states
from foldlog_projections.states import Owned, Rewound, State, Step

_CHECKPOINT: Final = "Execution.save_checkpoint"


class Tenure:
    """An execution as its owner knows it.

    `snapshot` is what the next checkpoint saves, `steps` what is on record: the owner's own copies.
    """

    def __init__(
        self,
        store: BaseStore,
        state_id: str,
        owner: str,
        metadata: StateMetadata | None,
        version: str | None,
        migrations: Migrations | None,
        session_id: str | None,
    ) -> None:
        self.state_id: Final = state_id
        self.redaction: Final = StepRedaction(core_of(store).redaction, state_id)
        self._migrations = migrations
        self.snapshot: StateSnapshot = self._new()
        self._store = store
        self._core = core_of(store)
        self._session_id = session_id
        self._owner = owner
        self._metadata = metadata
        self._version = version
        self._state = State()
        self._turn = asyncio.Lock()

    @property
    def steps(self) -> Mapping[str, Step]:
        """The steps on record, by address, in the order in which they were first intended."""
        return self._state.steps

    @property
    def storage(self) -> dict[str, Any]:
        """The caller's data in the snapshot."""
        data: dict[str, Any] = self.snapshot.execution_state["storage"]["data"]
        return data

    async def put_blob(self, data: bytes) -> str:
        """Store a large value of the state; return its name. Errors as `Store.put_blob`."""
        return await self._store.put_blob(states.kind(self.state_id), data)

    async def keep_blob(self, name: str, data: bytes) -> None:
        """See that a large value is there. Errors as `Store.keep_blob`."""
        await self._store.keep_blob(states.kind(self.state_id), name, data)

    async def read_blob(self, name: str) -> bytes | None:
        """Return a large value of the state. Errors as `Store.read_blob`."""
        return await self._store.read_blob(states.kind(self.state_id), name)

    async def begin(self, resume_from: str | None) -> None:
        """Take the execution over, or begin it; with `resume_from`, void that step and all after.

        Raises:
            ConfigurationError: there is no such step; or the state's history is not of steps.
            IncompatibleState: see `Migrations.migrate`. Others as `write_state`.
        """

        def take_over(state: State, head: int) -> Writing:
            if resume_from is not None and resume_from not in {*state.steps, state.rewound} - {""}:
                raise ConfigurationError(
                    f"execution {self.state_id!r:.80} has no step {resume_from!r:.80} on record"
                )
            self._adopt(state)
            begins: list[msgspec.Struct] = [
                Owned(state.epoch + 1, self._owner, secrets.token_hex(8))
            ]
            if resume_from is not None:
                begins.append(Rewound(resume_from))
            drafts = _drafts(*begins)
            self._fold(begins, drafts)
            if self._metadata is not None:
                self.snapshot.metadata = self._metadata.model_copy(deep=True)
            if self._version is not None:
                self.snapshot.version = self._version
            value = self._value(StateStatus.RUNNING)
            return Writing([*drafts, *saving(state, value)], listing(state, value))

        await add_belongings(self._core, self._session_id, states.kind(self.state_id))
        await write_state(self._store, self.state_id, take_over, in_atomic="refuse")

    async def look(self) -> None:
        """Read the execution without taking it over; ConfigurationError if there is none."""
        state = await read_state(self._store, self.state_id)
        if not state.epoch:
            raise ConfigurationError(
                f"there is no execution {self.state_id!r:.80}: store.recovery.list_states() lists "
                "those there are"
            )
        self._adopt(state)

    async def refreshed(self, address: str) -> Step | None:
        """Return a step as the log has it now: an append may have come through after all."""
        step = (await read_state(self._store, self.state_id)).steps.get(address)
        if step is not None:
            self._state.steps[address] = step
        return step

    async def write(
        self,
        *records: msgspec.Struct,
        status: StateStatus | None = None,
        saved: Callable[[State], Value] | None = None,
        when: Callable[[State], bool] | None = None,
    ) -> bool:
        """Append records, and with `status` a checkpoint, in one moment. Returns True.

        Args:
            status: of the checkpoint. A question is recorded with one.
            saved: makes the snapshot to be saved of the state, where it is no checkpoint.
            when: is asked of the state at that moment; where it returns False, nothing is appended
                and this returns False.

        Raises:
            ExecutionTakenOver: another owner has taken over. Nothing was appended.
            PayloadError, RedactionFailed: the checkpoint cannot be saved. Nothing was appended.
            Others as `write_state`.
        """
        async with self._turn:
            drafts = _drafts(*records)
            checkpoint = None if status is None else self._value(status)
            successor: str | None = None

            def decide(state: State, head: int) -> Writing | None:
                nonlocal successor
                successor = None if state.tenure == self._state.tenure else state.owner
                if successor is not None or (when is not None and not when(state)):
                    return None
                value = checkpoint if saved is None else saved(state)
                if value is None:
                    return Writing(drafts)
                asked = begun(self.state_id, state, records, drafts, self._session_id)
                return Writing([*drafts, *saving(state, value)], listing(state, value), asked)

            written = await write_state(self._store, self.state_id, decide, in_atomic="refuse")
            if successor is not None:
                raise ExecutionTakenOver(self.state_id, successor)
            if written:
                self._fold(records, drafts)
            return written

    async def refer(self, name: str, artifact_id: str) -> None:
        """Put an artifact's name on record, ahead of the next checkpoint. Errors as `write`."""
        ref = native({name: artifact_id}, "artifact_refs")
        self.snapshot.artifact_refs |= ref

        def saved(state: State) -> Value:
            value = cast(Value, state.value)  # there is one since its owner began
            return {**value, "updated_at": now(), "artifact_refs": value["artifact_refs"] | ref}

        await self.write(saved=saved)

    def _fold(self, records: Iterable[msgspec.Struct], drafts: Iterable[Draft]) -> None:
        """Fold what is appended into the owner's own copy of the state."""
        for record, draft in zip(records, drafts, strict=True):
            self._state = states.applied(self._state, record, draft.ts)

    def _adopt(self, state: State) -> None:
        snapshot = restored(self.state_id, State(state.value))
        if snapshot is None:
            snapshot = self._new()
        elif self._migrations is not None:
            snapshot = self._migrations.migrate(snapshot)
        self.snapshot = _held(snapshot)
        self._state = replace(state, value=None, steps=dict(state.steps))

    def _new(self) -> StateSnapshot:
        """The snapshot of a new execution, at the version of this program."""
        return StateSnapshot(
            state_id=self.state_id,
            created_at=now(),
            updated_at=now(),
            version=SCHEMA_VERSION if self._migrations is None else self._migrations.current,
            status=StateStatus.RUNNING,
            execution_state={"storage": {"data": {}}},
        )

    def _value(self, status: StateStatus) -> dict[str, Any]:
        self.snapshot.status = status
        self.snapshot.updated_at = now()
        value = valued(self.snapshot, self._core.redaction, _CHECKPOINT)
        storage = value["execution_state"].get("storage")
        if not isinstance(storage, dict) or not isinstance(storage.get("data"), dict):
            raise RedactionFailed(states.SAVED, _CHECKPOINT, "storage has to stay a mapping")
        return value


def _held(snapshot: StateSnapshot) -> StateSnapshot:
    """A snapshot without its history, with storage; ConfigurationError for one of another shape."""
    inner = snapshot.execution_state
    history = inner.pop("history", None)
    storage = inner.setdefault("storage", {})
    data = storage.setdefault("data", {}) if isinstance(storage, dict) else None
    if not isinstance(data, dict) or (isinstance(history, dict) and history.get("events")):
        raise ConfigurationError(
            f"state {snapshot.state_id!r:.80} was saved by something else than an execution, "
            "which cannot go on with its history"
        )
    return snapshot


def _drafts(*records: msgspec.Struct) -> list[Draft]:
    return [encode(states.kind, each) for each in records]
