"""A session as it stood at one moment, to look at."""

from __future__ import annotations

from collections.abc import Mapping

from foldlog.envelope import Recorded
from foldlog.models import TaskState
from foldlog.sessions import groups, lifecycle, patches
from foldlog.sessions.context import context_of
from foldlog.sessions.errors import UnknownTask
from foldlog.sessions.ledger import Ledger
from foldlog.sessions.models import PendingContextPatch, SessionContext, TaskGroup
from foldlog.sessions.standing import Standing
from foldlog.store.lineages import as_of_session
from foldlog.store.store import BaseStore
from foldlog.store.tasks import TASKS
from foldlog_projections import session
from foldlog_projections.session import State


class SessionState:
    """Everything that a session is, as of one moment. What it hands out is the caller's own."""

    def __init__(self, standing: Standing) -> None:
        """Keep how a session stands: a copy, since views go on."""
        self.session_id = standing.session_id
        self._saved: Mapping[str, Recorded] = dict(standing.saved)
        self._state: State = session.kind.restore(session.kind.keep(standing.state))

    @classmethod
    async def load(cls, session_id: str, store: BaseStore) -> SessionState:
        """Return a session as of now; an unknown one is empty.

        Raises:
            InvalidId: the id is empty. LogUnavailable, LogCorrupt: it could not be read.
        """
        return cls(await Ledger(store, session_id).read())

    @property
    def context(self) -> SessionContext:
        """The context."""
        return context_of(self._state)

    @property
    def tasks(self) -> list[TaskState]:
        """The tasks, in the order in which they were spawned."""
        return as_of_session(TASKS.restore_all(self._saved.values()), self.session_id)

    def task(self, task_id: str) -> TaskState:
        """A task.

        Raises:
            UnknownTask: there is none of that id.
        """
        item = self._saved.get(task_id)
        if item is None:
            raise UnknownTask(task_id)
        [task] = as_of_session([TASKS.restore(item)], self.session_id)
        return task

    @property
    def foreground_task_id(self) -> str | None:
        """The first foreground task that runs, if any."""
        return lifecycle.foreground(self._standing)

    @property
    def pending_patches(self) -> dict[str, PendingContextPatch]:
        """The patches that wait for approval, by id, oldest first."""
        return {id: patches.restored(queued) for id, queued in self._state.pending.items()}

    @property
    def groups(self) -> dict[str, TaskGroup]:
        """The groups, by id, oldest first."""
        return {id: groups.restored(group) for id, group in self._state.groups.items()}

    def group(self, group_id: str) -> TaskGroup:
        """A group.

        Raises:
            UnknownGroup: there is none of that id.
        """
        return groups.restored(groups.found(self._state, group_id))

    def outcome(self, patch_id: str) -> str | None:
        """What was decided about a patch: "applied" or "rejected"; None, if nothing was."""
        return self._state.decided.get(patch_id)

    def is_acknowledged(self, event_id: str) -> bool:
        """Whether some worker has taken a steering event."""
        return event_id in self._state.acknowledged

    @property
    def _standing(self) -> Standing:
        return Standing(self.session_id, self._saved, self._state)
