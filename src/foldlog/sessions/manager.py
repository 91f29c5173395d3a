"""The sessions that a server has open: one object a session id."""

from __future__ import annotations

import asyncio
from typing import Self

from foldlog.sessions.session import Session
from foldlog.sessions.telemetry import TaskTelemetrySink
from foldlog.store.store import BaseStore


class SessionManager:
    """Opens each session once and holds it until `drop` or `close`, for servers.

    The name is that of the StateStore specification 2.11, "Integration Points".

    Args:
        state_store: a foldlog store, which the manager does not close.
        telemetry_sink: hears of the tasks of every session. None: nobody does.
    """

    def __init__(
        self, state_store: BaseStore, telemetry_sink: TaskTelemetrySink | None = None
    ) -> None:
        self._store = state_store
        self._sink = telemetry_sink
        self._sessions: dict[str, Session] = {}
        self._turn = asyncio.Lock()

    def get(self, session_id: str) -> Session | None:
        """Return a session that is open; None if it is not.

        Args:
            session_id: the session.
        """
        return self._sessions.get(session_id)

    async def get_or_create(self, session_id: str) -> Session:
        """Return a session, opening it first if it is not open.

        Args:
            session_id: the session.

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        found = self._sessions.get(session_id)
        if found is not None:
            return found
        async with self._turn:
            found = self._sessions.get(session_id)
            if found is None:
                found = Session(session_id, self._store, self._sink)
                await found.hydrate()
                self._sessions[session_id] = found
            return found

    async def drop(self, session_id: str) -> None:
        """Close a session that is open. What the log holds of it stays.

        Args:
            session_id: the session.

        Raises nothing.
        """
        found = self._sessions.pop(session_id, None)
        if found is not None:
            await found.close()

    async def close(self) -> None:
        """Close every session. Closing again does nothing. Raises nothing."""
        for session_id in list(self._sessions):
            await self.drop(session_id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()
