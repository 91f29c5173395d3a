"""The checkpoints of a session's workflows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec
from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException

from foldlog.envelope import Recorded
from foldlog.errors import FoldlogError, NotFound, PayloadError, shown
from foldlog.integrations.access import AnyStore, access_to
from foldlog.integrations.objects import Objects, Unreadable, read_as
from foldlog.integrations.waiting import begin_waiting, token_beside
from foldlog.opening import Store
from foldlog.subjects import checked_id
from foldlog_projections.agent_framework import workflowcheckpoints
from foldlog_projections.agent_framework.workflowcheckpoints import (
    DELETED,
    CheckpointDeleted,
    CheckpointSaved,
)

T = TypeVar("T")

PACKAGE: Final = "agent_framework"

REQUEST: Final = "request_info"
"""The `reason` of a workflow's request that waits for an answer."""

_PICKLED: Final = "$pickled"


class CheckpointNotFound(NotFound, WorkflowCheckpointException):
    """The session `session_id` has no checkpoint `id`."""

    def __init__(self, session_id: str, id: str) -> None:
        in_session = f"No checkpoint found with ID {id} in session {shown(session_id)}"
        super().__init__("checkpoint", id, in_session)


class TypeNotAllowed(FoldlogError, WorkflowCheckpointException):
    """A checkpoint holds `what`: an object of a class that `types=` does not name, or a pickle."""

    def __init__(self, what: str) -> None:
        super().__init__(f"a checkpoint holds {what}: name it in types= or pickle_types=")


class CheckpointUnreadable(Unreadable, WorkflowCheckpointException):
    """A checkpoint is nothing that agent_framework can read."""


class FoldlogCheckpointStorage:
    """The checkpoints of a session's workflows: `WorkflowBuilder(checkpoint_storage=storage)`.

    It takes the place of `FileCheckpointStorage`. Values are stored as data, without pickle: what
    the log holds by itself, and objects of agent_framework's classes and of those in `types`. A
    request that waits for an answer is in `store.waiting()` until a later checkpoint is without it.

    Args:
        session_id: the session that the checkpoints belong to, and are erased with.
        store: an open store, or one of `foldlog.blocking.connect()`.
        types: classes of yours that messages and states have: dataclasses, models, enums.
        pickle_types: has everything pickled that is not JSON, as `FileCheckpointStorage` does, and
            says what may be unpickled beside the framework's classes, as "module:qualname".

    Raises:
        InvalidId: `session_id` is empty, or no string.
    """

    def __init__(
        self,
        session_id: str,
        store: AnyStore,
        *,
        types: Iterable[type] = (),
        pickle_types: Iterable[str] | None = None,
    ) -> None:
        self.session_id: str = checked_id(session_id, "session_id")
        self._key = workflowcheckpoints.kind(session_id)
        self._objects = Objects(types, PACKAGE, TypeNotAllowed)
        self._pickle_types = None if pickle_types is None else frozenset(pickle_types)
        self._do = access_to(store).acall

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Store a checkpoint and return its id. It takes the place of one of the same id.

        Raises:
            PayloadError: it is no checkpoint, or holds what cannot be stored; `path` says where.
            RedactionFailed: `redact=` failed. Nothing was stored.
            AppendFailed, LogUnavailable: nothing was stored.
            AppendUnknown: it may have been stored; saving again is safe.
        """
        if not isinstance(checkpoint, WorkflowCheckpoint):
            raise PayloadError("checkpoint", f"{shown(checkpoint)} is no WorkflowCheckpoint")
        body = checkpoint.to_dict()
        pending = checkpoint.pending_request_info_events
        asked = {id: self._encode(getattr(each, "data", None), id) for id, each in pending.items()}
        _time(checkpoint.timestamp)
        saved = CheckpointSaved(
            id=checked_id(body.pop("checkpoint_id"), "checkpoint_id"),
            workflow=checked_id(body.pop("workflow_name"), "workflow_name"),
            timestamp=body.pop("timestamp"),
            previous=body.pop("previous_checkpoint_id"),
            waits=tuple(pending),
            body=self._encode(body, "checkpoint"),
        )
        await self._do(lambda store: self._save(store, saved, asked))
        return saved.id

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """Return the checkpoint of an id, a new object.

        Raises:
            CheckpointNotFound: there is none.
            TypeNotAllowed: it holds a class that `types=` does not name.
            CheckpointUnreadable: `redact=`, or another version, has made something else of it.
                These three are kinds of agent_framework.WorkflowCheckpointException.
            LogUnavailable, LogCorrupt: the log did not answer, or cannot be read.
        """
        found = await self._query(_found(checkpoint_id))
        if found is None:
            raise CheckpointNotFound(self.session_id, checkpoint_id)
        return self._checkpoint(found)

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Return a workflow's checkpoints that can be read, in the order of their first saves.

        Raises:
            TypeNotAllowed: one holds a class that `types=` does not name.
            LogUnavailable, LogCorrupt: the log did not answer, or cannot be read.
        """
        found = []
        for _, each in await self._of(workflow_name):
            with suppress(CheckpointUnreadable):
                found.append(self._checkpoint(each))
        return found

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Return the ids of a workflow's checkpoints, in the order of their first saves."""
        return [head.id for head, _ in await self._of(workflow_name)]

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """Return the checkpoint that a workflow has come to; None if it has none.

        It is one from which no other came, so that clocks which differ do no harm. Of several, of
        runs that went on from one checkpoint, it has the latest timestamp.

        Raises:
            TypeNotAllowed: it holds a class that `types=` does not name.
            CheckpointUnreadable: `redact=`, or another version, has made something else of it.
            LogUnavailable, LogCorrupt: the log did not answer, or cannot be read.
        """
        found = await self._of(workflow_name)
        passed = {head.previous for head, _ in found}
        ends = [each for each in reversed(found) if each[0].id not in passed]
        if not ends:
            return None
        return self._checkpoint(max(ends, key=lambda each: _time(each[0].timestamp))[1])

    async def delete(self, checkpoint_id: str) -> bool:
        """Remove a checkpoint; False if there is none of that id.

        Earlier moments still show it; `store.erase_session` erases it.

        Raises:
            AppendConflict, AppendFailed, LogUnavailable, LogCorrupt: nothing was removed.
            AppendUnknown: it may have been removed; deleting again is safe.
        """
        find = _found(checked_id(checkpoint_id, "checkpoint_id"))

        def once(state: Mapping[Any, Recorded]) -> list[CheckpointDeleted]:
            return [CheckpointDeleted(checkpoint_id)] if find(state) else []

        return bool(await self._do(lambda store: store.decide(self._key, once, copy=False)))

    async def _save(self, store: Store, saved: CheckpointSaved, asked: dict[str, Any]) -> None:
        """Append it with what it changes of the list of what waits."""
        before = await store.view(self._key, _found(saved.previous))
        waited = set[str]() if before is None else set(_head(before).waits)
        if waited == asked.keys():
            await store.append(self._key, saved)
            return

        async def save() -> None:
            await store.append(self._key, saved)
            for request in waited.difference(asked):
                await store.load_planner_state(self._token(store, request))
            for request in asked.keys() - waited:
                payload = {
                    "workflow": saved.workflow,
                    "request_id": request,
                    "data": asked[request],
                }
                token = self._token(store, request)
                await begin_waiting(
                    store,
                    token,
                    REQUEST,
                    payload,
                    session_id=self.session_id,
                    answer_in="your program: run the workflow with responses= of this request_id",
                )

        await store.transact(save)

    def _token(self, store: Store, request_id: str) -> str:
        return token_beside(store, self._key, f"{PACKAGE}:{self.session_id}:{request_id}")

    async def _of(self, workflow_name: str) -> list[tuple[_Head, Recorded]]:
        def choose(state: Mapping[Any, Recorded]) -> list[tuple[_Head, Recorded]]:
            found = [(_head(each), each) for each in state.values() if each.type != DELETED]
            return [each for each in found if each[0].workflow == workflow_name]

        return await self._query(choose)

    async def _query(self, question: Callable[[Mapping[Any, Recorded]], T]) -> T:
        """As of all that was acked to anybody before."""
        return await self._do(lambda store: store.view(self._key, question, consistency="strong"))

    def _checkpoint(self, stored: Recorded) -> WorkflowCheckpoint:
        saved: CheckpointSaved = workflowcheckpoints.kind.decode(stored)
        about = {
            "checkpoint_id": saved.id,
            "workflow_name": saved.workflow,
            "timestamp": saved.timestamp,
            "previous_checkpoint_id": saved.previous,
        }
        return read_as(
            lambda body: WorkflowCheckpoint.from_dict({**self._decode(body), **about}),
            saved.body,
            f"checkpoint {shown(saved.id)} of session {shown(self.session_id)}",
            CheckpointUnreadable,
        )

    def _encode(self, value: Any, path: str) -> Any:
        if self._pickle_types is None:
            try:
                return self._objects.encode(value, path)
            except RecursionError as error:
                raise PayloadError(path, "something in it holds itself") from error
        from agent_framework._workflows._checkpoint_encoding import encode_checkpoint_value

        return {_PICKLED: encode_checkpoint_value(value)}

    def _decode(self, body: Any) -> Any:
        if _PICKLED not in body:
            return self._objects.decode(body)
        if self._pickle_types is None:
            raise TypeNotAllowed("pickles")
        from agent_framework._workflows._checkpoint_encoding import decode_checkpoint_value

        return decode_checkpoint_value(body[_PICKLED], allowed_types=self._pickle_types)


class _Head(msgspec.Struct):
    """A checkpoint without what it holds."""

    id: str
    workflow: str
    timestamp: str
    previous: str | None = None
    waits: tuple[str, ...] = ()


_decode_head: Final = msgspec.msgpack.Decoder(_Head).decode


def _head(stored: Recorded) -> _Head:
    return _decode_head(stored.payload)


def _found(id: str | None) -> Callable[[Mapping[Any, Recorded]], Recorded | None]:
    """What finds a checkpoint, if it is there."""

    def find(state: Mapping[Any, Recorded]) -> Recorded | None:
        stored = state.get(id)
        return None if stored is None or stored.type == DELETED else stored

    return find


def _time(timestamp: Any) -> dt.datetime:
    try:
        time = dt.datetime.fromisoformat(timestamp)
    except (TypeError, ValueError) as error:
        raise PayloadError("timestamp", f"{shown(timestamp)} is no time of ISO 8601") from error
    return time if time.tzinfo else time.replace(tzinfo=dt.UTC)
