"""A session as of one moment: for its users, and for decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Self

import msgspec

from foldlog import codec
from foldlog.envelope import Recorded
from foldlog.errors import NotFound
from foldlog.models import TaskState, TaskStatus, TaskType
from foldlog.sessions.models import PendingContextPatch, SessionContext, TaskGroup
from foldlog.store.core import core_of
from foldlog.store.ownership import as_of_session
from foldlog.store.store import BaseStore
from foldlog.store.tasks import TASKS
from foldlog.views import Consistency
from foldlog_projections import tasks
from foldlog_projections.fold import copied
from foldlog_projections.sessions import session
from foldlog_projections.sessions.session import Group, State


class _Spawned(msgspec.Struct, frozen=True, gc=False):
    spawned_from_task_id: str = "foreground"
    spawn_reason: str | None = None
    propagate_on_cancel: str = "cascade"
    notify_on_complete: bool = True


class TaskBrief(msgspec.Struct, frozen=True, gc=False):
    """The few fields of a task that decisions need; its contents stay encoded. Times ISO 8601."""

    task_id: str
    status: TaskStatus
    task_type: TaskType
    priority: int
    created_at: str
    context_snapshot: _Spawned
    trace_id: str | None = None
    description: str | None = None
    mode: str | None = None
    paused_at: str = ""

    @property
    def parent_id(self) -> str:
        """The task that spawned it; "foreground" where none was named."""
        return self.context_snapshot.spawned_from_task_id


brief_of: Final = msgspec.msgpack.Decoder(TaskBrief).decode
"""Returns the brief of a task, from the payload of a `task.saved`."""

_encode: Final = msgspec.msgpack.Encoder().encode


class SessionState:
    """A session as of one moment, made by `session.refresh()` or `session.state`.

    `fold` gives the session's own view, and is called when something of that is asked for.
    """

    __slots__ = ("_fold", "saved", "session_id")

    def __init__(
        self, session_id: str, saved: Mapping[str, Recorded], fold: Callable[[], State]
    ) -> None:
        self.session_id: str = session_id
        self.saved: Mapping[str, Recorded] = saved
        self._fold = fold

    @classmethod
    async def load(
        cls, session_id: str, store: BaseStore, *, consistency: Consistency = "strong"
    ) -> SessionState:
        """Return a session as of now; an unknown one is empty.

        Args:
            session_id: the session.
            store: the store.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return (await read_session(store, session_id, consistency)).copy()

    def copy(self) -> Self:
        """Return a state that shares nothing with this one."""
        folded = copied(session.kind, self.folded)
        return type(self)(self.session_id, dict(self.saved), lambda: folded)

    @property
    def folded(self) -> State:
        """Internal: the session's own view, its context, patches and groups."""
        return self._fold()

    @property
    def context(self) -> SessionContext:
        """The context."""
        if self.folded.context is None:
            return SessionContext()
        parts = codec.decode(_encode(self.folded.context))
        return SessionContext(**parts, version=self.folded.version, context_hash=self.folded.hash)

    @property
    def tasks(self) -> list[TaskState]:
        """The tasks, in the order in which they were spawned."""
        return as_of_session(TASKS.restore_all(self.saved.values()), self.session_id)

    def task(self, task_id: str) -> TaskState:
        """Return a task.

        Args:
            task_id: the task.

        Raises:
            NotFound: there is none of that id.
        """
        [task] = as_of_session([TASKS.restore(self._saved(task_id))], self.session_id)
        return task

    @property
    def foreground_task_id(self) -> str | None:
        """The first foreground task that runs, if any."""
        for task in self.briefs():
            if task.task_type is TaskType.FOREGROUND and task.status is TaskStatus.RUNNING:
                return task.task_id
        return None

    @property
    def pending_patches(self) -> dict[str, PendingContextPatch]:
        """The patches that wait for approval, by id, oldest first."""
        queued = self.folded.pending.values()
        return {each.patch_id: PendingContextPatch.restored(each) for each in queued}

    @property
    def groups(self) -> dict[str, TaskGroup]:
        """The groups, by id, oldest first."""
        return {id: TaskGroup.restored(group) for id, group in self.folded.groups.items()}

    def group(self, group_id: str) -> TaskGroup:
        """Return a group.

        Args:
            group_id: the group.

        Raises:
            NotFound: there is none of that id.
        """
        return TaskGroup.restored(self.group_record(group_id))

    def outcome(self, patch_id: str) -> str | None:
        """Return the decision about a patch: "applied" or "rejected"; None if there is none.

        Args:
            patch_id: the patch.
        """
        return self.folded.decided.get(patch_id)

    def is_acknowledged(self, event_id: str) -> bool:
        """Return whether a worker has acknowledged a steering event.

        Args:
            event_id: the event.
        """
        return event_id in self.folded.acknowledged

    # For decisions: nothing is decoded that they do not need.

    def brief(self, task_id: str) -> TaskBrief:
        """Internal: return a task's brief."""
        return brief_of(self._saved(task_id).payload)

    def briefs(self) -> Iterator[TaskBrief]:
        """Internal: yield the brief of every task, in the order in which they were spawned."""
        return (brief_of(item.payload) for item in self.saved.values())

    def group_record(self, group_id: str) -> Group:
        """Internal: return a group as it is folded."""
        group = self.folded.groups.get(group_id)
        if group is None:
            raise NotFound("group", group_id, "session.create_group(...) makes one")
        return group

    def _saved(self, task_id: str) -> Recorded:
        item = self.saved.get(task_id)
        if item is None:
            raise NotFound("task", task_id, "session.spawn_task(...) makes one")
        return item


async def read_session(
    store: BaseStore, session_id: str, consistency: Consistency = "strong"
) -> SessionState:
    """Return a session as its views hold it: use it before the next await, never change it.

    Inside `store.atomic()` it shows what the block has decided. Errors as `SessionState.load`.
    """
    # Tasks first: what the other view says of a task is then never older than the task.
    core = core_of(store)
    saved, _ = await core.read_at(tasks.kind(session_id), consistency=consistency)
    folded, _ = await core.read_at(session.kind(session_id), consistency=consistency)
    state = folded.state
    return SessionState(session_id, saved.state, lambda: state)
