"""How a store comes by its sessions."""

from __future__ import annotations

from foldlog.sessions.session import Session
from foldlog.sessions.telemetry import TaskTelemetrySink
from foldlog.store.store import BaseStore


async def session(
    journal: BaseStore, session_id: str, telemetry: TaskTelemetrySink | None
) -> Session:
    """Return a session over a store's log, as it stands now."""
    opened = Session(journal, session_id, telemetry)
    await opened.refresh()
    return opened
