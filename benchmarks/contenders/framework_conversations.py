"""Two `ConversationStore`s of Pydantic AI, as users would write them: on PostgreSQL and SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

from benchmarks.contenders.one_file import Database
from benchmarks.contenders.pooled import Pooled

_CONVERSATIONS: Final = """
CREATE TABLE records (
    id TEXT PRIMARY KEY, revision TEXT, scope TEXT, updated DOUBLE PRECISION, body JSONB
);
CREATE TABLE entries (id TEXT PRIMARY KEY, parent TEXT, body JSONB);
"""
_MOST: Final = 2**31 - 1
_LIST: Final = """
SELECT body FROM records WHERE CAST(? AS TEXT) IS NULL OR scope = ? ORDER BY updated DESC LIMIT ?
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
_IS_THERE: Final = "($9::text IS NULL OR EXISTS (SELECT FROM entries WHERE id = $9))"
_CREATE: Final = f"""
INSERT INTO records SELECT $1, $2, $3, $4::double precision, $5::jsonb WHERE {_IS_THERE}
ON CONFLICT DO NOTHING
"""
_REPLACE: Final = f"""
UPDATE records SET revision = $2, scope = $3, updated = $4, body = $5
WHERE id = $1 AND revision = $10 AND {_IS_THERE}
"""
_SAVE: Final = """
WITH saved AS ({} RETURNING id), added AS (
    INSERT INTO entries
    SELECT each.* FROM saved, unnest($6::text[], $7::text[], $8::jsonb[]) AS each
) SELECT id FROM saved
"""

_record: Final = TypeAdapter(ConversationRecord)
_entry: Final = TypeAdapter(ConversationEntry)


class _Conversations(ConversationStore):  # type: ignore[misc, unused-ignore]
    """What both share: conversations have the entries in common that forks lead to.

    `rows` is a database's.
    """

    tables = _CONVERSATIONS
    rows: Any

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return a record, or None."""
        rows = await self.rows("SELECT body FROM records WHERE id = ?", conversation_id)
        return _record.validate_json(rows[0][0]) if rows else None

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> list[ConversationRecord]:
        """Return records, or those of a scope, the one that was saved last first."""
        rows = await self.rows(_LIST, scope, scope, _MOST if limit is None else limit)
        return [_record.validate_json(body) for (body,) in rows]

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
        rows = await self.rows(_HISTORY, head_id, _MOST if limit is None else limit)
        if not rows:
            raise KeyError(head_id)
        return [_entry.validate_json(body) for (body,) in rows]


class SqliteConversations(Database, _Conversations):
    """One transaction a save: `await SqliteConversations.open(path)`."""

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
        row = (*_row(record), _record.dump_json(record))

        def write(database: sqlite3.Connection) -> None:
            _check(database, id, expected_revision)
            known = database.execute("SELECT 1 FROM entries WHERE id = ?", (head,)).fetchone()
            if head is not None and head not in new and known is None:
                raise ConversationConflict(id)
            database.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", rows)
            database.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?)", row)

        await self.write(write)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a record, and the entries that no other one leads to."""

        def delete(database: sqlite3.Connection) -> None:
            _check(database, conversation_id, expected_revision)
            database.execute("DELETE FROM records WHERE id = ?", (conversation_id,))
            database.execute(_UNREACHED)

        await self.write(delete)


class PostgresConversations(Pooled, _Conversations):
    """One statement a save: `await PostgresConversations.open(pool)`."""

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Save a record and its new entries, in place of the record of that revision."""
        ids = [each.id for each in new_entries]
        saved = await self.rows(
            _SAVE.format(_CREATE if expected_revision is None else _REPLACE),
            *_row(record),
            _record.dump_json(record).decode(),
            ids,
            [each.parent_id for each in new_entries],
            [_entry.dump_json(each).decode() for each in new_entries],
            None if record.head_id in ids else record.head_id,
            *([] if expected_revision is None else [expected_revision]),
        )
        if not saved:
            raise ConversationConflict(record.conversation_id)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a record. Its entries stay, as others may be about to lead to them."""
        statement = "DELETE FROM records WHERE id = ? AND revision = ? RETURNING id"
        if not await self.rows(statement, conversation_id, expected_revision):
            raise ConversationConflict(conversation_id)


def _row(record: ConversationRecord) -> tuple[Any, ...]:
    updated = record.updated_at.timestamp()
    return record.conversation_id, record.revision, record.scope, updated


def _check(database: sqlite3.Connection, id: str, expected: str | None) -> None:
    found = database.execute("SELECT revision FROM records WHERE id = ?", (id,)).fetchone()
    if (found and found[0]) != expected:
        raise ConversationConflict(id)
