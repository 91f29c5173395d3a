"""Two `SessionStore`s of the Claude Agent SDK: on PostgreSQL and on SQLite."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, Final

from claude_agent_sdk import SessionStore, fold_session_summary

from benchmarks.contenders.one_file import Database
from benchmarks.contenders.pooled import Pooled

_TRANSCRIPTS: Final = """
CREATE TABLE entries (
    id INTEGER PRIMARY KEY, project TEXT, session TEXT, subpath TEXT, uuid TEXT, body TEXT,
    mtime INTEGER, UNIQUE (project, session, subpath, uuid)
);
"""
_POSTGRES_TRANSCRIPTS: Final = """
CREATE TABLE entries (
    project text, session text, subpath text, id bigserial, body jsonb NOT NULL,
    mtime bigint NOT NULL, PRIMARY KEY (project, session, subpath, id)
);
CREATE INDEX ON entries (project, session) WHERE subpath = '';
"""
_APPEND: Final = """
INSERT INTO entries (project, session, subpath, mtime, body)
SELECT ?, ?, ?, ?, body FROM unnest(?::jsonb[]) WITH ORDINALITY AS each(body, number)
ORDER BY number
"""


class _Transcripts(SessionStore):  # type: ignore[misc, unused-ignore]
    """What both share: `rows` and `run` are a database's."""

    rows: Any
    run: Any

    async def load(self, key: Any) -> list[Any] | None:
        """Return the entries of a transcript, in order; None if there are none."""
        where = "project = ? AND session = ? AND subpath = ?"
        rows = await self.rows(f"SELECT body FROM entries WHERE {where} ORDER BY id", *_place(key))
        return [json.loads(body) for (body,) in rows] or None

    async def list_sessions(self, project_key: str) -> list[Any]:
        """Return a project's sessions, each with the time of its last append."""
        rows = await self.rows(
            "SELECT session, MAX(mtime) FROM entries WHERE project = ? AND subpath = '' GROUP BY 1",
            project_key,
        )
        return [{"session_id": name, "mtime": mtime} for name, mtime in rows]

    async def list_session_summaries(self, project_key: str) -> list[Any]:
        """Return what the SDK makes of each session, made when it is asked for."""
        found = []
        for each in await self.list_sessions(project_key):
            key: Any = {"project_key": project_key, "session_id": each["session_id"]}
            summary = fold_session_summary(None, key, await self.load(key) or [])
            found.append({**summary, "mtime": each["mtime"]})
        return found

    async def delete(self, key: Any) -> None:
        """Delete a session, or with a subpath that transcript alone."""
        where, place = "project = ? AND session = ?", [key["project_key"], key["session_id"]]
        if "subpath" in key:
            where, place = f"{where} AND subpath = ?", [*place, key["subpath"]]
        await self.run(f"DELETE FROM entries WHERE {where}", *place)

    async def list_subkeys(self, key: Any) -> list[str]:
        """Return the subpaths of a session."""
        rows = await self.rows(
            "SELECT DISTINCT subpath FROM entries "
            "WHERE project = ? AND session = ? AND subpath > ''",
            key["project_key"],
            key["session_id"],
        )
        return [subpath for (subpath,) in rows]


class SqliteTranscripts(Database, _Transcripts):
    """The smallest true one, as a user would write it: `await SqliteTranscripts.open(path)`."""

    tables = _TRANSCRIPTS

    async def append(self, key: Any, entries: Sequence[Any]) -> None:
        """Add entries; one whose uuid is there already has no effect."""
        place, now = _place(key), _now()
        rows = [(*place, each.get("uuid"), json.dumps(each), now) for each in entries]
        statement = "INSERT OR IGNORE INTO entries VALUES (NULL, ?, ?, ?, ?, ?, ?)"
        await self.write(lambda database: database.executemany(statement, rows))


class PostgresTranscripts(Pooled, _Transcripts):
    """Does what the SDK's example for PostgreSQL does: `await PostgresTranscripts.open(pool)`.

    https://github.com/anthropics/claude-agent-sdk-python/tree/main/examples/session_stores
    """

    tables = _POSTGRES_TRANSCRIPTS

    async def append(self, key: Any, entries: Sequence[Any]) -> None:
        """Add entries, a row each, in one statement; like the example it compares no uuids."""
        await self.run(_APPEND, *_place(key), _now(), [json.dumps(each) for each in entries])


def _place(key: Any) -> tuple[str, str, str]:
    return key["project_key"], key["session_id"], key.get("subpath", "")


def _now() -> int:
    return int(time.time() * 1000)
