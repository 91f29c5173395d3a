"""The smallest true `SessionStore` of the Claude Agent SDK on SQLite: what a user would write."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, Final

from claude_agent_sdk import SessionStore, fold_session_summary

from benchmarks.contenders.one_file import Database

_TRANSCRIPTS: Final = """
CREATE TABLE entries (
    id INTEGER PRIMARY KEY, project TEXT, session TEXT, subpath TEXT, uuid TEXT, body TEXT,
    mtime INTEGER, UNIQUE (project, session, subpath, uuid)
);
"""


class SqliteTranscripts(Database, SessionStore):  # type: ignore[misc, unused-ignore]
    """The Claude Agent SDK's `SessionStore`: `await SqliteTranscripts.open(path)`."""

    tables = _TRANSCRIPTS

    async def append(self, key: Any, entries: Sequence[Any]) -> None:
        """Add entries; one whose uuid is there already has no effect."""
        place, now = (key["project_key"], key["session_id"], key.get("subpath", "")), _now()
        rows = [(*place, each.get("uuid"), json.dumps(each), now) for each in entries]
        statement = "INSERT OR IGNORE INTO entries VALUES (NULL, ?, ?, ?, ?, ?, ?)"
        await self.write(lambda database: database.executemany(statement, rows))

    async def load(self, key: Any) -> list[Any] | None:
        """Return the entries of a transcript, in order; None if there are none."""
        place = (key["project_key"], key["session_id"], key.get("subpath", ""))
        where = "project = ? AND session = ? AND subpath = ?"
        rows = await self.rows(f"SELECT body FROM entries WHERE {where} ORDER BY id", *place)
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
        statement = f"DELETE FROM entries WHERE {where}"
        await self.write(lambda database: database.execute(statement, place))

    async def list_subkeys(self, key: Any) -> list[str]:
        """Return the subpaths of a session."""
        rows = await self.rows(
            "SELECT DISTINCT subpath FROM entries "
            "WHERE project = ? AND session = ? AND subpath > ''",
            key["project_key"],
            key["session_id"],
        )
        return [subpath for (subpath,) in rows]


def _now() -> int:
    return int(time.time() * 1000)
