"""The smallest true `ConversationStore` of Pydantic AI on SQLite: what a user would write."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

from benchmarks.contenders.one_file import Database

_CONVERSATIONS: Final = """
CREATE TABLE records (id TEXT PRIMARY KEY, revision TEXT, scope TEXT, updated REAL, body TEXT);
CREATE TABLE entries (id TEXT PRIMARY KEY, parent TEXT, body TEXT);
"""
_HISTORY: Final = """
WITH RECURSIVE chain(id, parent, body, n) AS (
    SELECT id, parent, body, 1 FROM entries WHERE id = ?
    UNION ALL SELECT e.id, e.parent, e.body, n + 1 FROM entries e JOIN chain ON e.id = chain.parent
    WHERE n < ?
) SELECT body FROM chain ORDER BY n DESC
"""
_UNREACHED: Final = """
WITH RECURSIVE reached(id) AS (
    SELECT json_extract(body, '$.head_id') FROM records
    UNION SELECT value FROM records, json_each(body, '$.branches')
    UNION SELECT parent FROM entries JOIN reached USING (id)
) DELETE FROM entries WHERE id NOT IN (SELECT id FROM reached WHERE id IS NOT NULL)
"""

_record: Final = TypeAdapter(ConversationRecord)
_entry: Final = TypeAdapter(ConversationEntry)


class SqliteConversations(Database, ConversationStore):  # type: ignore[misc, unused-ignore]
    """Pydantic AI's `ConversationStore`: conversations share the entries that they have in common.

    `await SqliteConversations.open(path)`.
    """

    tables = _CONVERSATIONS

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return a record, or None."""
        rows = await self.rows("SELECT body FROM records WHERE id = ?", conversation_id)
        return _record.validate_json(rows[0][0]) if rows else None

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> list[ConversationRecord]:
        """Return records, or those of a scope, the one that was saved last first."""
        rows = await self.rows(
            "SELECT body FROM records WHERE ?1 IS NULL OR scope = ?1 "
            "ORDER BY updated DESC LIMIT ?2",
            scope,
            -1 if limit is None else limit,
        )
        return [_record.validate_json(body) for (body,) in rows]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Save a record and its new entries, in place of the record of that revision."""
        id, head, new = record.conversation_id, record.head_id, {each.id for each in new_entries}
        rows = [(each.id, each.parent_id, _entry.dump_json(each)) for each in new_entries]
        row = (id, record.revision, record.scope, record.updated_at.timestamp())
        body = _record.dump_json(record)

        def write(database: sqlite3.Connection) -> None:
            _check(database, id, expected_revision)
            known = database.execute("SELECT 1 FROM entries WHERE id = ?", (head,)).fetchone()
            if head is not None and head not in new and known is None:
                raise ConversationConflict(id)
            database.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", rows)
            statement = "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?)"
            database.execute(statement, (*row, body))

        await self.write(write)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a record, and the entries that no other one leads to."""

        def delete(database: sqlite3.Connection) -> None:
            _check(database, conversation_id, expected_revision)
            database.execute("DELETE FROM records WHERE id = ?", (conversation_id,))
            database.execute(_UNREACHED)

        await self.write(delete)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry. KeyError: there is none."""
        [entry] = await self.read_history(entry_id, limit=1)
        return entry

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Return the entries up to one, or the last so many. KeyError: it is not there."""
        if head_id is None or limit == 0:
            return []
        rows = await self.rows(_HISTORY, head_id, 2**62 if limit is None else limit)
        if not rows:
            raise KeyError(head_id)
        return [_entry.validate_json(body) for (body,) in rows]


def _check(database: sqlite3.Connection, id: str, expected: str | None) -> None:
    found = database.execute("SELECT revision FROM records WHERE id = ?", (id,)).fetchone()
    if (found and found[0]) != expected:
        raise ConversationConflict(id)
