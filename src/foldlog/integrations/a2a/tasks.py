"""Tasks on the log: each with its versions, and a list of each owner's."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from a2a.server import cluster
from a2a.server.context import ServerCallContext
from a2a.server.tasks import TaskStore
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors, proto_utils, task as paging
from a2a.utils.constants import DEFAULT_LIST_TASKS_PAGE_SIZE
from google.protobuf import json_format

from foldlog.errors import PayloadError, shown
from foldlog.integrations.a2a.log import OnLog, json_of, number_of, parse
from foldlog.integrations.waiting import begin_waiting, token_beside
from foldlog.kind import Key
from foldlog.store.core import core_of
from foldlog_projections.a2a import a2alist
from foldlog_projections.a2a.a2alist import Listed, Unlisted, matching
from foldlog_projections.a2a.a2atasks import AgentTask, Saved
from foldlog_projections.delta import difference

Agrees = Callable[[AgentTask, str], bool]
"""Whether a task may come to a state, from what is stored."""

_CANCELED: Final = "TASK_STATE_CANCELED"
_ENDED: Final = (_CANCELED, "TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_REJECTED")
_SECONDS: Final = 10.0
"""How long a list leaves out tasks that were erased, page by page."""

_WAITING: Final = ("TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED")


class _Waits(Exception):
    """The stored task waits for a person: what ends that is saved with the task."""


class _Tasks(OnLog):
    """What both task stores share."""

    async def list(
        self, params: pb.ListTasksRequest, context: ServerCallContext
    ) -> pb.ListTasksResponse:
        """Return a page of the owner's tasks that match, those with the latest status first.

        Raises:
            InvalidParamsError: `page_token` or `page_size` is none. Others as `get`.
        """
        if params.page_size:
            paging.validate_page_size(params.page_size)
        size, index = params.page_size or DEFAULT_LIST_TASKS_PAGE_SIZE, self._list(context)
        loop = asyncio.get_running_loop()
        ends = loop.time() + _SECONDS
        while True:
            total, found = await self._store.view(
                index, lambda listed: _choose(listed, params, size), consistency="strong"
            )
            reads = (self._read(each.task_id, context, each) for each in found[:size])
            stored = await asyncio.gather(*reads)
            gone = [each for each, task in zip(found, stored, strict=False) if task is None]
            if not gone or core_of(self._store).past is not None or loop.time() > ends:
                break
            await self._store.decide(index, partial(_unlisted, gone))  # erased with their session
        return pb.ListTasksResponse(
            tasks=[each.task for each in stored if each is not None],
            total_size=total,
            page_size=size,
            next_page_token=_token_after(found[size - 1]) if len(found) > size else None,
        )

    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        """Delete the owner's task with its history and its push configurations, if there is one.

        The server frees the bytes later. Errors as `Store.delete`.
        """
        if await self._read(task_id, context) is None:
            return

        async def unlist() -> None:
            await self._store.append(self._list(context), Unlisted(task_id))
            await self._store.load_planner_state(self._token_of(task_id))

        await self._store.transact(unlist)
        await self._store.erase(self._key(task_id), overwrite=False)

    def _list(self, context: ServerCallContext) -> Key[dict[str, Listed]]:
        return a2alist.kind(self._name, f"@{self._owner_of(context)}")  # no user: ""

    def _token_of(self, task_id: str) -> str:
        return token_beside(self._store, self._key(task_id), f"{self._name}/{task_id}")

    async def _read(
        self, task_id: str, context: ServerCallContext, listed: Listed | None = None
    ) -> cluster.StoredTask | None:
        """The owner's task with its version; if it is `listed`, no older than the list has it."""
        owner = self._owner_of(context)

        def find(task: AgentTask) -> tuple[Any, cluster.StoredTask | None]:
            if (saved := task.saved) is None or saved.owner != owner:
                return None, None
            body = parse(task.body, pb.Task(), f"task {shown(task_id)}")
            place = Listed(task_id, saved.context_id, saved.state, saved.at)
            return place, cluster.StoredTask(body, cluster.TaskVersion(saved.version))

        key = self._key(task_id)
        if listed is not None:
            read, found = await self._store.view(key, find)
            if read == listed:
                return found
        return (await self._store.view(key, find, consistency="strong"))[1]

    async def _save(
        self, task: Any, event: Any, context: ServerCallContext, agrees: Agrees
    ) -> cluster.TaskVersion:
        """Append the next version of a task, and the event that made it."""
        if not isinstance(task, pb.Task):
            raise PayloadError("task", f"{shown(task)} is no Task of A2A")
        key, index, owner = self._key(task.id), self._list(context), self._owner_of(context)
        about = task.context_id, _state(task.status.state), _nanoseconds(task.status, "timestamp")
        response = None if event is None else json_of(proto_utils.to_stream_response(event))
        if response == {}:
            raise PayloadError("event", f"{shown(event)} is no event of A2A")
        whole = self._redacted(key, Saved(0, owner, *about, [0, json_of(task)], response))
        body = (whole.change or [None])[-1]
        before, is_joint = "", about[1] in _WAITING

        def decide(stored: AgentTask) -> Mapping[Key[Any], Sequence[Any]]:
            nonlocal before
            was = stored.saved
            if not agrees(stored, about[1]) or (was is not None and was.owner != owner):
                raise cluster.ConcurrentTaskModificationError(task.id)
            before = was.state if was is not None else ""
            if before in _WAITING and not is_joint:
                raise _Waits
            change = difference(stored.body, body)
            saved = {key: [Saved(stored.version + 1, owner, *about, change, whole.event)]}
            is_listed = was is not None and (was.context_id, was.state, was.at) == about
            return saved if is_listed else {**saved, index: [Listed(task.id, *about)]}

        async def save() -> int:
            saved: Any = (await self._store.decide([key], decide, copy=False))[key][0]
            if saved.state not in _WAITING and before in _WAITING:
                await self._store.load_planner_state(self._token_of(task.id))
            elif saved.state in _WAITING and (event is not None or before not in _WAITING):
                await self._ask(task.id, saved, body)
            return int(saved.version)

        if task.context_id:
            await self._store.belong(task.context_id, key)
        try:
            version = await (self._store.transact(save) if is_joint else save())
        except _Waits:
            is_joint = True
            version = await self._store.transact(save)
        return cluster.TaskVersion(version)

    async def _ask(self, task_id: str, saved: Saved, body: Any) -> None:
        """List a task that asks for something."""
        await begin_waiting(
            self._store,
            self._token_of(task_id),
            saved.state.removeprefix("TASK_STATE_").lower().replace("_", "-"),
            body.get("status", {}).get("message", {}),
            session_id=saved.context_id,
            answer_in="the task's client: send its agent a message for this task",
            user_id=saved.owner,
            task_id=task_id,
            version=saved.version,
        )

    def _redacted(self, key: Key[Any], saved: Saved) -> Saved:
        """A whole task and its event as `redact=` leaves them: a task and an event."""
        found: Saved = core_of(self._store).redacted(f"{type(self).__name__}.save", key, saved)
        if found is not saved:
            try:
                json_format.ParseDict((found.change or [None])[-1], pb.Task())
                json_format.ParseDict(found.event or {}, pb.StreamResponse())
            except (json_format.ParseError, TypeError, ValueError) as fault:
                raise PayloadError("task", f"redact= left no task of A2A: {fault}") from fault
        return found


class FoldlogTaskStore(_Tasks, TaskStore):
    """The tasks of an A2A server (`a2a.server.tasks.TaskStore`); the last save of each stands.

    Where several servers save one task, take `FoldlogVersionedTaskStore`: it has the same tasks.
    """

    async def save(self, task: pb.Task, context: ServerCallContext) -> None:
        """Save a task for the owner of the call.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the task was refused. Nothing was saved.
            ConcurrentTaskModificationError: another owner has a task of its id. Nothing was saved.
            AppendConflict, AppendFailed, LogUnavailable, LogCorrupt: nothing was saved.
            AppendUnknown: it may have been saved; saving again is safe.
        """
        await self._save(task, None, context, lambda stored, state: True)

    async def get(self, task_id: str, context: ServerCallContext) -> pb.Task | None:
        """Return the owner's task of that id as it was last saved anywhere, or None.

        Raises:
            LogUnavailable, LogCorrupt: the log could not be read.
        """
        stored = await self._read(task_id, context)
        return None if stored is None else stored.task


class FoldlogVersionedTaskStore(_Tasks, cluster.VersionedTaskStore):
    """The tasks of A2A servers that share them (`a2a.server.cluster.VersionedTaskStore`).

    One append compares the version, saves the task and publishes the event.
    """

    @property
    def as_task_store(self) -> FoldlogTaskStore:
        """The same tasks, saved whatever their version."""
        return FoldlogTaskStore(self._store, name=self._name, owner_resolver=self._owner_of)

    async def save(
        self,
        task: pb.Task,
        *,
        event: Any,
        prev: pb.Task | None,
        prev_version: cluster.TaskVersion,
        context: ServerCallContext,
    ) -> cluster.TaskVersion:
        """Save a task that was made of `prev_version`; return its version.

        A task that is cancelled is saved over any version that has not ended.

        Args:
            event: what made the task so; `FoldlogTaskEventStream` yields it. None: nothing.
            prev: is not used: the log knows what it was.

        Raises:
            ConcurrentTaskModificationError: there is another version, or another owner's task.
            TypeError: `prev_version` is another store's.
            InvalidId, PayloadError, RedactionFailed: the task was refused. Nothing was saved.
            AppendConflict, AppendFailed, LogUnavailable, LogCorrupt: nothing was saved.
            AppendUnknown: it may have been saved; read before you try again.
        """
        expected = number_of(prev_version)

        def agrees(stored: AgentTask, state: str) -> bool:
            if state == _CANCELED:
                return stored.saved is not None and stored.saved.state not in _ENDED
            return stored.version == expected

        return await self._save(task, event, context, agrees)

    async def get(self, task_id: str, context: ServerCallContext) -> cluster.StoredTask | None:
        """Return the owner's task of that id with its version, or None.

        Raises:
            LogUnavailable, LogCorrupt: the log did not answer, or cannot be read.
        """
        return await self._read(task_id, context)


def _choose(listed: Mapping[str, Listed], params: Any, size: int) -> tuple[int, list[Listed]]:
    """How many tasks match, and those of a page and the one behind it."""
    found = matching(
        listed.values(),
        context_id=params.context_id,
        state=_state(params.status) if params.status else None,
        since=_nanoseconds(params, "status_timestamp_after"),
    )
    total, token = len(found), params.page_token
    if token:
        if (cursor := paging.decode_list_tasks_cursor(token)) is None:
            raise errors.InvalidParamsError(f"Invalid page token: {token}")
        found = [each for each in found if each.place < cursor.sort_key()]
    return total, heapq.nlargest(size + 1, found, key=lambda each: each.place)


def _token_after(last: Listed) -> str:
    cursor = paging.ListTasksCursor(timestamp_ns=last.at, task_id=last.task_id)
    return str(paging.encode_list_tasks_cursor(cursor))


def _unlisted(gone: Sequence[Listed], listed: Mapping[str, Listed]) -> list[Unlisted]:
    """The records that take tasks off a list, which may have been listed anew meanwhile."""
    return [Unlisted(each.task_id) for each in gone if listed.get(each.task_id) == each]


def _state(number: int) -> str:
    return str(pb.TaskState.Name(number) if number in pb.TaskState.values() else number)


def _nanoseconds(message: Any, field: str) -> int | None:
    return getattr(message, field).ToNanoseconds() if message.HasField(field) else None
