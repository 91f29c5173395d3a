"""SQLite with the same tables and a write-ahead log that is synced at every commit."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Final, ParamSpec, TypeVar

from benchmarks.contenders import rows
from benchmarks.site import Site
from foldlog import StateUpdate, StoredEvent

P = ParamSpec("P")
T = TypeVar("T")

_PRAGMAS: Final = ("journal_mode", "synchronous")
_TABLES: Final = """
CREATE TABLE flow_events (
    id INTEGER PRIMARY KEY, trace_id TEXT NOT NULL, ts REAL NOT NULL, kind TEXT NOT NULL,
    node_name TEXT, node_id TEXT, event_fp TEXT NOT NULL, payload TEXT,
    UNIQUE (trace_id, event_fp)
);
CREATE INDEX idx_events_trace_ts ON flow_events(trace_id, ts, id);
CREATE TABLE memory_states (key TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE planner_pauses (
    token TEXT PRIMARY KEY, payload TEXT NOT NULL, expires_at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE state_updates (
    id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, task_id TEXT NOT NULL, trace_id TEXT,
    update_id TEXT NOT NULL UNIQUE, update_type TEXT NOT NULL, content TEXT,
    step_index INTEGER, total_steps INTEGER, created_at TEXT
);
CREATE INDEX idx_updates_cursor ON state_updates(session_id, id);
"""


def _insert(table: str, columns: Sequence[str]) -> str:
    marks = ", ".join("?" * len(columns))
    return f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({marks})"


_INSERT_UPDATE: Final = _insert("state_updates", rows.UPDATE_COLUMNS)
_INSERT_EVENT: Final = _insert("flow_events", rows.EVENT_COLUMNS)
_SELECT_UPDATES: Final = """
SELECT * FROM state_updates
WHERE session_id = ?1 AND id > COALESCE((SELECT id FROM state_updates WHERE update_id = ?2), 0)
ORDER BY id LIMIT 500
"""
_SELECT_EVENTS: Final = "SELECT * FROM flow_events WHERE trace_id = ? ORDER BY ts, id"
_UPSERT_PAUSE: Final = "INSERT OR REPLACE INTO planner_pauses VALUES (?, ?, unixepoch() + 3600)"
_CONSUME_PAUSE: Final = """
DELETE FROM planner_pauses WHERE token = ? AND expires_at > unixepoch() RETURNING payload
"""


class Sqlite:
    """One connection, used by one thread, as the asyncio wrappers of SQLite do it."""

    name: ClassVar[str] = "SQLite"
    promise: ClassVar[str] = "fsynced write-ahead log (journal_mode=WAL, synchronous=FULL)"

    def __init__(self, site: Site) -> None:
        self._path = site.directory("sqlite") / "state.db"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite")
        self._database: sqlite3.Connection

    async def open(self) -> None:
        """Make the file and the tables."""
        await self._do(self._make)

    def _make(self) -> None:
        self._database = sqlite3.connect(self._path, isolation_level=None)
        self._database.row_factory = sqlite3.Row
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.executescript(_TABLES)

    async def facts(self) -> dict[str, str]:
        """What the connection runs with; a `synchronous` of 2 is FULL."""
        pragmas = {name: await self._do(self._execute, f"PRAGMA {name}", ()) for name in _PRAGMAS}
        return {
            "sqlite": sqlite3.sqlite_version,
            **{name: str(found[0][0]) for name, found in pragmas.items()},
        }

    async def close(self) -> None:
        """Close the file and end the thread."""
        await self._do(self._database.close)
        self._thread.shutdown()

    async def _do(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: function(*args, **kwargs))

    async def save(self, update: StateUpdate) -> None:
        """One INSERT, committed by itself."""
        row = rows.update_row(update)
        await self._do(self._execute, _INSERT_UPDATE, (*row[:-1], row[-1].isoformat()))

    def _execute(self, statement: str, values: tuple[Any, ...]) -> list[sqlite3.Row]:
        return self._database.execute(statement, values).fetchall()

    def _execute_many(self, statement: str, values: Iterable[tuple[Any, ...]]) -> None:
        self._database.execute("BEGIN")
        self._database.executemany(statement, values)
        self._database.execute("COMMIT")

    async def load(self, updates: Iterable[StateUpdate], *, together: int) -> None:
        """One transaction."""
        values = ((*row[:-1], row[-1].isoformat()) for row in map(rows.update_row, updates))
        await self._do(self._execute_many, _INSERT_UPDATE, values)

    async def list_updates(self, session_id: str, since: str | None = None) -> list[StateUpdate]:
        """One SELECT by index."""
        found = await self._do(self._execute, _SELECT_UPDATES, (session_id, since))
        return [rows.restored_update(row) for row in found]

    async def save_events(self, events: Sequence[StoredEvent]) -> None:
        """One transaction."""
        await self._do(self._execute_many, _INSERT_EVENT, map(rows.event_row, events))

    async def load_history(self, trace_id: str) -> list[StoredEvent]:
        """One SELECT by index."""
        found = await self._do(self._execute, _SELECT_EVENTS, (trace_id,))
        return [rows.restored_event(row) for row in found]

    async def save_memory(self, key: str, state: dict[str, Any]) -> None:
        """One upsert."""
        statement = "INSERT OR REPLACE INTO memory_states VALUES (?, ?)"
        await self._do(self._execute, statement, (key, json.dumps(state)))

    async def load_memory(self, key: str) -> dict[str, Any] | None:
        """One SELECT by primary key."""
        statement = "SELECT state FROM memory_states WHERE key = ?"
        return _parsed(await self._do(self._execute, statement, (key,)))

    async def pause(self, token: str, state: dict[str, Any]) -> None:
        """One upsert."""
        await self._do(self._execute, _UPSERT_PAUSE, (token, json.dumps(state)))

    async def resume(self, token: str) -> dict[str, Any] | None:
        """One DELETE that returns what it removed."""
        return _parsed(await self._do(self._execute, _CONSUME_PAUSE, (token,)))


def _parsed(found: list[sqlite3.Row]) -> dict[str, Any] | None:
    state: dict[str, Any] | None = json.loads(found[0][0]) if found else None
    return state
