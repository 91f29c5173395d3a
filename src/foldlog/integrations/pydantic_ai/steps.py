"""What `StepPersistence` of pydantic-ai-harness keeps: runs, events, snapshots, effects of tools.

    from foldlog.integrations.pydantic_ai.steps import FoldlogStepStore

The contract is `pydantic_ai_harness.step_persistence.StepStore`, 0.62 and later:
https://github.com/pydantic/pydantic-ai/blob/main/pydantic_ai_harness/pydantic_ai_harness/step_persistence/_store.py
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec
from pydantic import TypeAdapter
from pydantic_ai.messages import ModelMessagesTypeAdapter

from foldlog.errors import ConfigurationError as _ConfigurationError

try:
    from pydantic_ai_harness.step_persistence import (
        ContinuableSnapshot,
        RunRecord,
        StepEvent,
        ToolEffectRecord,
    )
except ModuleNotFoundError as _error:
    raise _ConfigurationError(
        f"{_error.name} is not installed: pip install --no-deps pydantic-ai-harness"
    ) from _error

from foldlog import kinds
from foldlog.errors import PayloadError, shown
from foldlog.integrations.access import AnyStore, access_to
from foldlog.integrations.objects import read_as
from foldlog.opening import Store
from foldlog.store.core import core_of
from foldlog.subjects import checked_id
from foldlog_projections.messages import Conversations, Message

__all__ = ["FoldlogStepStore"]

T = TypeVar("T")

FORMAT: Final = "pydantic_ai_harness"
"""What the messages say of their shape: JSON of the harness' dataclasses."""

_RUNS: Final = "pydantic_ai_harness runs"
_MESSAGES: Final = "pydantic_ai_harness messages"

_adapters: Final[dict[str, TypeAdapter[Any]]] = {
    "run": TypeAdapter(RunRecord),
    "event": TypeAdapter(StepEvent),
    "snapshot": TypeAdapter(ContinuableSnapshot),
    "effect": TypeAdapter(ToolEffectRecord),
}


class FoldlogStepStore:
    """Keeps the steps of runs in a session, for `StepPersistence`.

        StepPersistence(store=FoldlogStepStore(store, "ann"))

    It takes the place of `SqliteStepStore` or `PostgresStepStore`. Each run is a conversation of
    the session, and `foldlog show` has it; a message of a model is stored once, in however many
    snapshots it is. Any number of processes use one session. What it keeps is cleared and erased
    with the session.

    Every method raises LogUnavailable and LogCorrupt as `Store.view`, and InvalidId for an empty
    id; those that write also PayloadError for what has no form in JSON, RedactionFailed,
    AppendFailed and AppendUnknown as `Store.append`. Reads see what any process has saved before,
    and raise Unreadable for what `redact=` or another version has left in another shape.

    Args:
        store: from `foldlog.connect`, `foldlog.memory_store` or `foldlog.blocking.connect`. It
            stays open when this object goes.
        session_id: the session that the runs are in. Runs of other sessions are not seen.
    """

    def __init__(self, store: AnyStore, session_id: str) -> None:
        self.session_id: str = checked_id(session_id, "session_id")
        self._do = access_to(store).acall

    async def register_run(self, record: RunRecord) -> None:
        """Store whose run it is. ValueError: a run of that id is there."""
        id, body = checked_id(record.run_id, "run_id"), {"run": _dump("run", record)}

        def add(found: Conversations) -> Sequence[Message]:
            if id in found[_RUNS]:
                raise ValueError(f"run_id {id!r} is already in the store")
            return [Message(id, FORMAT, body, conversation=_RUNS)]

        await self._decide(add)

    async def get_run(self, *, run_id: str) -> RunRecord | None:
        """Return a run's record, or None."""
        found = await self._read(_RUNS, "run", lambda each: each["run_id"] == run_id)
        return found[0] if found else None

    async def list_runs(
        self, *, parent_run_id: str | None = None, conversation_id: str | None = None
    ) -> list[RunRecord]:
        """Return the runs, those of a parent, or of a conversation; the first that began first."""
        found: list[RunRecord] = await self._read(_RUNS, "run")
        wanted = [
            each
            for each in found
            if parent_run_id in (None, each.parent_run_id)
            and conversation_id in (None, each.conversation_id)
        ]
        return sorted(wanted, key=lambda each: each.started_at)

    async def append_event(self, event: StepEvent) -> None:
        """Add an event; one whose `idempotency_key` is there has no effect."""
        await self._add(event.run_id, "event", _dump("event", event), event.idempotency_key)

    async def list_events(self, *, run_id: str) -> list[StepEvent]:
        """Return a run's events, in the order in which they were added."""
        return await self._read(_of(run_id), "event")

    async def save_snapshot(self, snapshot: ContinuableSnapshot) -> None:
        """Add a snapshot; one whose `idempotency_key` is there has no effect."""
        bodies = _json(lambda: ModelMessagesTypeAdapter.dump_python(snapshot.messages, mode="json"))
        messages = await self._do(lambda store: self._messages(store, bodies))
        body = _dump("snapshot", replace(snapshot, messages=[]))
        body["messages"] = [each.id for each in messages]
        await self._add(snapshot.run_id, "snapshot", body, snapshot.idempotency_key, messages)

    async def latest_snapshot(
        self, *, run_id: str, include_interrupted: bool = False
    ) -> ContinuableSnapshot | None:
        """Return the snapshot that was saved last; of those that are complete, if not said else."""
        found = await self._snapshots(run_id, include_interrupted, last=1)
        return found[0] if found else None

    async def list_snapshots(
        self, *, run_id: str, include_interrupted: bool = False
    ) -> list[ContinuableSnapshot]:
        """Return a run's snapshots, in the order in which they were saved."""
        return await self._snapshots(run_id, include_interrupted)

    async def _snapshots(
        self, run_id: str, include_interrupted: bool, last: int = 0
    ) -> list[ContinuableSnapshot]:
        def wanted(body: Any) -> bool:
            return include_interrupted or body["state"] == "complete"

        return await self._read(_of(run_id), "snapshot", wanted, last)

    async def record_tool_effect(self, record: ToolEffectRecord) -> None:
        """Store how a tool's call stands, in place of how it stood."""
        await self._add(record.run_id, "effect", _dump("effect", record))

    async def get_tool_effect(self, *, run_id: str, tool_call_id: str) -> ToolEffectRecord | None:
        """Return how a tool's call stands, or None."""
        return (await self._effects(run_id)).get(tool_call_id)

    async def list_unresolved_tool_effects(self, *, run_id: str) -> list[ToolEffectRecord]:
        """Return the calls that began, and of whose end nothing is known."""
        found = await self._effects(run_id)
        return [each for each in found.values() if each.status == "started"]

    async def _effects(self, run_id: str) -> dict[str, ToolEffectRecord]:
        found: list[ToolEffectRecord] = await self._read(_of(run_id), "effect")
        return {each.tool_call_id: each for each in found}

    async def _add(
        self,
        run_id: str,
        what: str,
        body: Any,
        key: str | None = None,
        beside: Sequence[Message] = (),
    ) -> None:
        """Add a record to a run, and what of the messages beside it is not there."""
        id = f"{what} {os.urandom(16).hex() if key is None else f'key {key}'}"
        record = Message(id, FORMAT, {what: body}, conversation=_of(run_id))

        def add(found: Conversations) -> Sequence[Message]:
            if id in found[record.conversation]:
                return []
            known = found[_MESSAGES]
            new = {each.id: each for each in beside if each.id not in known}
            return [*new.values(), record]

        await self._decide(add)

    async def _messages(self, store: Store, bodies: Sequence[Any]) -> list[Message]:
        """Messages of a model; the id of each is the digest of what redact= leaves of it."""
        core, key = core_of(store), kinds.messages(self.session_id)
        drafts = [Message("", FORMAT, each, conversation=_MESSAGES) for each in bodies]
        digests = [_digest(core.redacted("decide", key, each).body) for each in drafts]
        return [
            msgspec.structs.replace(each, id=digest)
            for each, digest in zip(drafts, digests, strict=True)
        ]

    async def _decide(self, add: Callable[[Conversations], Sequence[Message]]) -> None:
        key = kinds.messages(self.session_id)
        await self._do(lambda store: store.decide(key, add, copy=False))

    async def _read(
        self,
        conversation: str,
        what: str,
        is_wanted: Callable[[Any], bool] = lambda body: True,
        last: int = 0,
    ) -> list[Any]:
        """The records of one sort in a conversation, in order; the last so many, or 0: all."""

        def choose(found: Conversations) -> list[Any]:
            # What redact= has replaced as a whole is no mapping, and left out.
            bodies = [each.body for each in found[conversation] if isinstance(each.body, dict)]
            bodies = [each[what] for each in bodies if what in each and is_wanted(each[what])]
            if what != "snapshot":
                return bodies
            said = {each.id: each.body for each in found[_MESSAGES]}
            return [
                each | {"messages": [said[id] for id in each["messages"]]}
                for each in bodies[-last:]
            ]

        async def read(store: Store) -> list[Any]:
            key = kinds.messages(self.session_id)
            return await store.view(key, choose, consistency="strong")

        named = f"{what} of session {shown(self.session_id)}"
        adapter = _adapters[what]
        return [
            read_as(lambda data: adapter.validate_json(msgspec.json.encode(data)), each, named)
            for each in await self._do(read)
        ]


def _of(run_id: str) -> str:
    """The conversation of a run."""
    return f"pydantic_ai_harness run {checked_id(run_id, 'run_id')}"


def _dump(what: str, value: Any) -> Any:
    return _json(lambda: _adapters[what].dump_python(value, mode="json"))


def _json(dump: Callable[[], T]) -> T:
    """A value as JSON has it. PayloadError: it has no such form."""
    try:
        return dump()
    except ValueError as error:
        raise PayloadError("steps", str(error)) from error


def _digest(body: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()
