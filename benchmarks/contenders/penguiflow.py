"""PenguiFlow's own in-memory store, which keeps nothing when the process ends."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module, metadata
from typing import Any, ClassVar

from benchmarks.site import Site
from benchmarks.unavailable import Unavailable
from foldlog import StateUpdate, StoredEvent


class InMemory:
    """`penguiflow.state.InMemoryStateStore`, with nothing in between."""

    name: ClassVar[str] = "PenguiFlow in memory"
    promise: ClassVar[str] = "none: gone with the process"

    def __init__(self, site: Site) -> None:
        self._store: Any  # InMemoryStateStore, which is only here where PenguiFlow is

    async def open(self) -> None:
        """Make an empty store."""
        try:
            state = import_module("penguiflow.state")
        except ImportError:
            raise Unavailable("PenguiFlow is not installed") from None
        self._store = state.InMemoryStateStore()

    async def facts(self) -> dict[str, str]:
        """Which PenguiFlow it is."""
        return {"penguiflow": metadata.version("penguiflow")}

    async def close(self) -> None:
        """Forget everything."""
        del self._store

    async def save(self, update: StateUpdate) -> None:
        """Save one update."""
        await self._store.save_update(update)

    async def list_updates(self, session_id: str, since: str | None = None) -> Sequence[Any]:
        """Read a session's updates."""
        found: Sequence[Any] = await self._store.list_updates(session_id, since_id=since)
        return found

    async def save_events(self, events: Sequence[StoredEvent]) -> None:
        """Save them one by one: it has no call for many."""
        for event in events:
            await self._store.save_event(event)

    async def load_history(self, trace_id: str) -> Sequence[Any]:
        """Read a trace; the events are those that were saved, not copies."""
        found: Sequence[Any] = await self._store.load_history(trace_id)
        return found

    async def save_memory(self, key: str, state: dict[str, Any]) -> None:
        """Save a session's memory."""
        await self._store.save_memory_state(key, state)

    async def load_memory(self, key: str) -> dict[str, Any] | None:
        """Read a session's memory."""
        found: dict[str, Any] | None = await self._store.load_memory_state(key)
        return found

    async def pause(self, token: str, state: dict[str, Any]) -> None:
        """Save what a pause resumes with."""
        await self._store.save_planner_state(token, state)

    async def resume(self, token: str) -> dict[str, Any] | None:
        """Consume a pause."""
        found: dict[str, Any] | None = await self._store.load_planner_state(token)
        return found
