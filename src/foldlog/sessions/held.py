"""A session as it is held: what it looks like, and how it is written to."""

from __future__ import annotations

import secrets
from typing import Any

from foldlog.errors import AppendUnknown, LogUnavailable
from foldlog.kind import Kind
from foldlog.models import TaskState, TaskStatus
from foldlog.sessions.emitter import Emitter
from foldlog.sessions.ledger import Decide, Ledger
from foldlog.sessions.models import PendingContextPatch, SessionContext
from foldlog.sessions.redacting import Redacting
from foldlog.sessions.standing import Standing
from foldlog.sessions.state import SessionState
from foldlog.sessions.telemetry import TaskTelemetrySink
from foldlog.store.store import BaseStore
from foldlog_projections.session import State


class Held:
    """What every part of a session works with."""

    def __init__(
        self, journal: BaseStore, session_id: str, telemetry: TaskTelemetrySink | None = None
    ) -> None:
        """Made by `Store.session`, which looks at the session, too."""
        self.session_id = session_id
        self.worker = secrets.token_hex(8)
        self.telemetry = Emitter(telemetry)
        self._journal = journal
        self._ledger = Ledger(journal, session_id)
        self._redacting = Redacting(journal.redaction, session_id)
        self._state = SessionState(Standing(session_id, {}, State()))

    async def refresh(self) -> SessionState:
        """Look at the session as of now.

        Raises:
            LogUnavailable, LogCorrupt: it could not be read.
        """
        self._state = SessionState(await self._ledger.read())
        return self._state

    @property
    def state(self) -> SessionState:
        """The session as it was last looked at."""
        return self._state

    @property
    def context(self) -> SessionContext:
        """The context: the caller's own copy, see `update_context`."""
        return self._state.context

    @property
    def pending_patches(self) -> dict[str, PendingContextPatch]:
        """The patches that wait for approval, by id."""
        return self._state.pending_patches

    @property
    def foreground_task_id(self) -> str | None:
        """The task that holds the session, if one does."""
        return self._state.foreground_task_id

    def get_task(self, task_id: str) -> TaskState:
        """Return a task, as it was last looked at.

        Raises:
            UnknownTask: there was none of that id.
        """
        return self._state.task(task_id)

    def list_tasks(self, *, status: TaskStatus | None = None) -> list[TaskState]:
        """Return the tasks, or those with that status, as they were last looked at."""
        return [task for task in self._state.tasks if status is None or task.status is status]

    async def _write(
        self, decide: Decide, *, also_on: Kind[Any] | None = None, unless_seen: str | None = None
    ) -> bool:
        entry = await self._ledger.write(decide, also_on=also_on, unless_seen=unless_seen)
        if entry is not None:
            self.telemetry.emit(entry.telemetry)
        try:
            # Own appends are seen by a read that need not ask the log.
            standing = await self._ledger.read("session")
        except LogUnavailable as error:
            if entry is None or not entry.ids:
                raise
            # Who hears that the log is away takes it that nothing was appended.
            raise AppendUnknown(entry.ids, f"appended, but not read back: {error}") from error
        self._state = SessionState(standing)
        return entry is not None
