"""PostgreSQL with the specification's schema and statements, through an asyncpg pool."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final

from benchmarks.contenders import rows
from benchmarks.site import Site
from benchmarks.unavailable import Unavailable
from foldlog import StateUpdate, StoredEvent

_SCHEMA: Final = Path(__file__).with_name("schema.sql")
_POOL: Final = {"min_size": 5, "max_size": 20}
"""What the specification recommends."""


def _insert(table: str, columns: Sequence[str], key: str) -> str:
    values = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values}) "
        f"ON CONFLICT ({key}) DO NOTHING"
    )


_INSERT_UPDATE: Final = _insert("state_updates", rows.UPDATE_COLUMNS, "update_id")
_INSERT_EVENT: Final = _insert("flow_events", rows.EVENT_COLUMNS, "trace_id, event_fp")
INSERT_STEERING: Final = _insert("steering_events", rows.STEERING_COLUMNS, "event_id")

_SELECT_UPDATES: Final = f"""
SELECT {", ".join(rows.UPDATE_COLUMNS)} FROM state_updates
WHERE session_id = $1 ORDER BY id LIMIT 500
"""
_SELECT_UPDATES_SINCE: Final = f"""
SELECT {", ".join(rows.UPDATE_COLUMNS)} FROM state_updates
WHERE session_id = $1
AND id > COALESCE((SELECT id FROM state_updates WHERE update_id = $2), 0)
ORDER BY id LIMIT 500
"""
_SELECT_EVENTS: Final = """
SELECT trace_id, ts, kind, node_name, node_id, payload FROM flow_events
WHERE trace_id = $1 ORDER BY ts ASC, id ASC
"""
_UPSERT_MEMORY: Final = """
INSERT INTO memory_states (key, state) VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE SET state = EXCLUDED.state, updated_at = NOW()
"""
_UPSERT_PAUSE: Final = """
INSERT INTO planner_pauses (token, payload, expires_at)
VALUES ($1, $2, NOW() + INTERVAL '1 hour')
ON CONFLICT (token) DO UPDATE SET payload = EXCLUDED.payload, expires_at = EXCLUDED.expires_at
"""
_CONSUME_PAUSE: Final = """
DELETE FROM planner_pauses WHERE token = $1 AND expires_at > NOW() RETURNING payload
"""


class Postgres:
    """The specification's PostgreSQL store."""

    name: ClassVar[str] = "PostgreSQL"
    promise: ClassVar[str] = "fsynced write-ahead log (fsync=on, synchronous_commit=on)"

    def __init__(self, site: Site) -> None:
        self._site = site
        self._schema = self._dsn = ""
        self._pool: Any  # asyncpg.Pool, which is only here where asyncpg is

    @property
    def pool(self) -> Any:
        """Its connections, which look in a schema of their own."""
        return self._pool

    @property
    def where(self) -> str:
        """What another process attaches by."""
        return f"{self._schema} {self._dsn}"

    async def attach(self, where: str) -> None:
        """Use the tables that another process made."""
        try:
            asyncpg = import_module("asyncpg")
        except ImportError:
            raise Unavailable("asyncpg is not installed") from None
        self._schema, self._dsn = where.split(" ", 1)
        self._pool = await asyncpg.create_pool(
            self._dsn,
            **_POOL,
            command_timeout=300.0,
            server_settings={"search_path": self._schema},
        )

    async def open(self) -> None:
        """Make the tables in a schema of their own."""
        await self.attach(f"bench_{secrets.token_hex(4)} {await self._site.postgres()}")
        facts = await self.facts()
        if {facts["fsync"], facts["synchronous_commit"]} != {"on"}:
            await self._pool.close()
            raise Unavailable(f"it would not be durable: {facts}")
        await self._pool.execute(f"CREATE SCHEMA {self._schema}")
        await self._pool.execute(_SCHEMA.read_text("utf-8"))

    async def facts(self) -> dict[str, str]:
        """The server's version, and what decides about its durability and its caches."""
        names = "server_version", "fsync", "synchronous_commit", "wal_sync_method", "shared_buffers"
        return {name: await self._pool.fetchval(f"SHOW {name}") for name in names}

    async def close(self) -> None:
        """Drop the tables and let go of the connections."""
        await self._pool.execute(f"DROP SCHEMA {self._schema} CASCADE")
        await self._pool.close()

    async def save(self, update: StateUpdate) -> None:
        """One INSERT, committed by itself."""
        await self._pool.execute(_INSERT_UPDATE, *rows.update_row(update))

    async def load(self, updates: Iterable[StateUpdate], *, together: int) -> None:
        """COPY, and statistics that are up to date."""
        await self._pool.copy_records_to_table(
            "state_updates",
            records=map(rows.update_row, updates),
            columns=rows.UPDATE_COLUMNS,
            schema_name=self._schema,
        )
        await self._pool.execute("VACUUM ANALYZE state_updates")

    async def list_updates(self, session_id: str, since: str | None = None) -> list[StateUpdate]:
        """One SELECT by index."""
        if since is None:
            found = await self._pool.fetch(_SELECT_UPDATES, session_id)
        else:
            found = await self._pool.fetch(_SELECT_UPDATES_SINCE, session_id, since)
        return [rows.restored_update(row) for row in found]

    async def save_events(self, events: Sequence[StoredEvent]) -> None:
        """One executemany, which asyncpg makes one transaction."""
        await self._pool.executemany(_INSERT_EVENT, [rows.event_row(event) for event in events])

    async def load_history(self, trace_id: str) -> list[StoredEvent]:
        """One SELECT by index."""
        return [
            rows.restored_event(row) for row in await self._pool.fetch(_SELECT_EVENTS, trace_id)
        ]

    async def save_memory(self, key: str, state: dict[str, Any]) -> None:
        """One upsert."""
        await self._pool.execute(_UPSERT_MEMORY, key, json.dumps(state))

    async def load_memory(self, key: str) -> dict[str, Any] | None:
        """One SELECT by primary key."""
        return _parsed(
            await self._pool.fetchval("SELECT state FROM memory_states WHERE key = $1", key)
        )

    async def pause(self, token: str, state: dict[str, Any]) -> None:
        """One upsert."""
        await self._pool.execute(_UPSERT_PAUSE, token, json.dumps(state))

    async def resume(self, token: str) -> dict[str, Any] | None:
        """One DELETE that returns what it removed."""
        return _parsed(await self._pool.fetchval(_CONSUME_PAUSE, token))


def _parsed(text: str | None) -> dict[str, Any] | None:
    found: dict[str, Any] | None = None if text is None else json.loads(text)
    return found
