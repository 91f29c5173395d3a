"""A pytest plugin: the SDK's tests make a FoldlogSessionStore where they mean one in memory."""

from __future__ import annotations

from typing import Any, Final

import claude_agent_sdk
from claude_agent_sdk._internal import session_store
from standing_in import fresh_store

from foldlog.integrations.claude_agent import FoldlogSessionStore

TURNS: Final = "gives a store some turns of the event loop, and then looks what it has done"
NOT_OURS: Final = {
    "test_mixed_sessions_gap_filled": "wants two appends within a millisecond to have two times",
    "test_load_concurrency_is_bounded": TURNS,
    "test_gap_fill_bounded_concurrency": TURNS,
    "test_cancelled_after_mkdtemp_cleans_temp_dir": TURNS,
    "test_eager_flush_mode_appends_per_frame_before_result": TURNS,
}
"""Tests that only a store without I/O passes, and why."""


class InMemorySessionStore(FoldlogSessionStore):
    """Over a log in memory, on a thread, with what only the SDK's tests ask of theirs."""

    def __init__(self) -> None:
        self.thread = fresh_store()
        super().__init__(self.thread)
        self._mtimes: dict[str, int] = {}

    async def list_sessions(self, project_key: str) -> list[dict[str, Any]]:
        listed = await super().list_sessions(project_key)
        for each in listed:
            each["mtime"] = self._mtimes.get(f"{project_key}/{each['session_id']}", each["mtime"])
        return listed

    def get_entries(self, key: Any) -> list[Any]:
        """All entries of a transcript."""
        return self.thread.call(lambda store: FoldlogSessionStore(store).load(key)) or []

    @property
    def size(self) -> int:
        """How many sessions there are."""
        return len(self.thread.call(lambda store: store.sessions()))

    def clear(self) -> None:
        """Remove everything."""
        self.thread.call(lambda store: store.clear(store.log.namespace.name))


def stand_in() -> None:
    claude_agent_sdk.InMemorySessionStore = InMemorySessionStore
    session_store.InMemorySessionStore = InMemorySessionStore
