"""A pytest plugin: openai-agents' SQLiteSession and its tests' own session are FoldlogSessions."""

from __future__ import annotations

from typing import Any, Final

import agents.memory
import agents.memory.sqlite_session
from standing_in import IS_OURS, fresh_store

import agents
from foldlog.blocking.bridge import StoreThread
from foldlog.integrations.openai_agents import FoldlogSession
from foldlog.integrations.openai_agents.session import _drafted

SQLITE: Final = "looks into SQLite's own connections, locks or rows"
NOT_OURS: Final = {
    "test_sqlite_session_close_closes_worker_thread_connections": SQLITE,
    "test_sqlite_session_closed_rejects_empty_add_items": "closes the session; ours has no close",
    "test_sqlite_session_pop_item_skips_corrupt_most_recent": SQLITE,
    "test_sqlite_session_pop_item_returns_none_after_dropping_only_corrupt_rows": SQLITE,
    "test_sqlite_session_get_items_limit_skips_corrupt_newest_rows": SQLITE,
    "test_sqlite_session_get_items_session_settings_limit_skips_corrupt_rows": SQLITE,
    "test_sqlite_session_file_lock_is_shared_across_instances": SQLITE,
    "test_sqlite_session_failed_add_items_releases_write_lock": SQLITE,
    "test_sqlite_session_failed_clear_session_rolls_back": SQLITE,
    "test_sqlite_session_failed_pop_item_releases_write_lock": SQLITE,
    "test_sqlite_session_rollback_failure_evicts_connection": SQLITE,
    "test_sqlite_session_close_retries_quarantined_connection": SQLITE,
    "test_sqlite_session_post_commit_cancellation_propagates_after_known_outcome": SQLITE,
    "test_sqlite_session_reaps_connections_from_exited_worker_threads": SQLITE,
    "test_sqlite_session_closes_retired_connections_before_the_next_allocation": SQLITE,
    "test_sqlite_session_keeps_connections_of_live_worker_threads": SQLITE,
    "test_automatic_compaction_rollback_budget": SQLITE,
    "test_settled_pop_failure_invalidates_response_chain": SQLITE,
    "test_settled_clear_failure_invalidates_response_chain": SQLITE,
}
"""Tests of SQLite rather than of a session, and why."""

_stores: dict[str, StoreThread] = {}


def _store(place: str) -> StoreThread:
    """A store in memory for each file; a new one each time for SQLite's place in memory."""
    if place == ":memory:":
        return fresh_store()
    return _stores.setdefault(place, fresh_store())


class SQLiteSession(FoldlogSession):
    """In place of theirs: for any thread and event loop."""

    def __init__(
        self, session_id: str, db_path: Any = ":memory:", *, session_settings: Any = None
    ) -> None:
        self._thread = _store(str(db_path))
        super().__init__(session_id, self._thread, session_settings=session_settings)

    def close(self) -> None:
        """There is nothing to close."""


class ListSession(SQLiteSession):
    """In place of the list of items that their tests of compaction have for a session."""

    def __init__(self, session_id: str = "test", history: Any = None) -> None:
        super().__init__(session_id)
        if history:
            new = _drafted(history)
            self._thread.call(lambda store: store.append_messages(session_id, new))

    @property
    def _items(self) -> list[Any]:
        found = self._thread.call(lambda store: store.list_messages(self.session_id))
        return [each.body for each in found]


def stand_in() -> None:
    import tests.utils.simple_session

    tests.utils.simple_session.SimpleListSession = ListSession  # type: ignore[misc]
    agents.memory.sqlite_session.SQLiteSession = SQLiteSession
    agents.memory.SQLiteSession = agents.SQLiteSession = SQLiteSession


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items if IS_OURS else ():
        for ours in (SQLiteSession, ListSession):
            theirs = ours.__name__.replace("List", "SimpleList")
            assert getattr(item.module, theirs, ours) is ours
