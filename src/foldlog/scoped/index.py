"""The index of one scope: a cache that holds nothing which the log has not.

It folds the changes of the scope: which keys there are, with their hints, texts and vectors, and
how they are linked. It can be removed at any time: what it lacks is read from the log again.

Time is the log's: an expired key goes with the next change that the log records; readers look at
`expires_at` until then.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from foldlog.batches import in_batches
from foldlog.envelope import CLEARED, FORKED
from foldlog.scoped import documents
from foldlog.scoped.documents import VALUES, Documents, Text
from foldlog.scoped.records import KeyEvent
from foldlog_projections.scoped.scoped import LINKED, OWN, Embedded, Linked, Written

_TABLES: Final = """
CREATE INDEX ending ON entries (expires_at) WHERE expires_at > 0;
CREATE INDEX of_session ON entries (id) WHERE lifetime = 'session';
CREATE TABLE links (
    id INTEGER PRIMARY KEY, from_key TEXT NOT NULL, to_key TEXT NOT NULL, relation TEXT NOT NULL,
    metadata BLOB NOT NULL, UNIQUE (from_key, to_key, relation)
);
CREATE INDEX incoming ON links (to_key);
CREATE TABLE newest (
    replaced BLOB NOT NULL, writer TEXT NOT NULL, n INTEGER NOT NULL,
    PRIMARY KEY (replaced, writer)
) WITHOUT ROWID;
CREATE TABLE synced (seq INTEGER NOT NULL, id TEXT NOT NULL, changes INTEGER NOT NULL)
"""
_NEWEST: Final = "INSERT OR REPLACE INTO newest VALUES {rows}"
_FORGET: Final = "DELETE FROM newest WHERE replaced = ?"
_ENDS: Final = "UPDATE entries SET seq = ? WHERE key = ?"
_LINK: Final = """
INSERT INTO links (from_key, to_key, relation, metadata) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET metadata = excluded.metadata
"""
_UNLINK: Final = "DELETE FROM links WHERE from_key = ? AND to_key = ? AND relation = ?"
_UNLINK_ALL: Final = "DELETE FROM links WHERE from_key = ? OR to_key = ?"
_LIVING: Final = "(expires_at = 0 OR expires_at > :now)"
_RANGE: Final = "key >= :first AND key < :after"
_EDGES: Final = """
SELECT to_key, relation, metadata FROM links WHERE from_key = :key AND NOT EXISTS (
    SELECT 1 FROM entries WHERE key IN (:key, to_key) AND expires_at > 0 AND expires_at <= :now
) ORDER BY id
"""


class Edge(NamedTuple):
    """A link from a key; `metadata` is an encoded payload."""

    to_key: str
    relation: str
    metadata: bytes


class Synced(NamedTuple):
    """How far an index goes: the sequence and the id of the last change, and how many there were.

    0 and "" for an index of nothing.
    """

    seq: int = 0
    id: str = ""
    changes: int = 0


class Index(Documents):
    """One scope's index. A key's `seq` is the sequence at which its subject ends."""

    tables: ClassVar[str] = f"{documents.TABLES};{_TABLES}"
    names: ClassVar[tuple[str, ...]] = (*documents.NAMES, "links", "newest", "synced")
    format: ClassVar[int] = 6

    def synced(self) -> Synced:
        """How far the index goes."""
        found = self.database.execute("SELECT seq, id, changes FROM synced").fetchone()
        return Synced(*found) if found else Synced()

    def fold(self, events: Sequence[KeyEvent], since: Synced) -> Synced | None:
        """Fold events that follow `since`, all or none, and return how far the index goes then.

        None if it has gone on from there meanwhile.
        """
        with self.transaction():
            if self.synced() != since:
                return None
            replaced = [*map(_replaced, events)]
            folding = _Folding(self, since.changes, replaced)
            for event, each in zip(events, replaced, strict=True):
                if event.envelope.type == CLEARED and event.key == OWN:
                    self.drop_all()
                    folding = _Folding(self, 0)
                else:
                    folding.apply(event, each)
            folding.finish()
            last = events[-1].envelope
            synced = Synced(last.seq, last.id, folding.count)
            self.database.execute("DELETE FROM synced")
            self.database.execute("INSERT INTO synced VALUES (?, ?, ?)", synced)
        return synced

    def newest(self, replaced: Sequence[bytes]) -> dict[bytes, dict[str, int]]:
        """How far each writer had come with what its changes replaced."""
        found: dict[bytes, dict[str, int]] = {}
        for some in in_batches(replaced, VALUES):
            query = f"SELECT * FROM newest WHERE replaced IN ({', '.join('?' * len(some))})"
            for each, writer, n in self.database.execute(query, some):
                found.setdefault(each, {})[writer] = n
        return found

    def put_newest(self, newest: Mapping[bytes, Mapping[str, int]]) -> None:
        """Keep what `newest` returned, brought up to date."""
        rows = [(each, *one) for each, writers in newest.items() for one in writers.items()]
        for some in in_batches(rows, VALUES // 3):
            self._insert(_NEWEST, some)

    def keys(self, now: float, prefix: str) -> list[str]:
        """The keys that begin with `prefix`, sorted by code points; `now` in Unix seconds."""
        query = f"SELECT key FROM entries WHERE {_RANGE} AND {_LIVING} ORDER BY key"
        rows = self.database.execute(query, {**_range(prefix), "now": now})
        return [key for (key,) in rows]

    def present(self, now: float, prefix: str) -> tuple[int, list[tuple[str, str]]]:
        """How far the index goes; and the keys with that prefix and their versions, in the order of
        their last writes.
        """
        query = f"SELECT key, version FROM entries WHERE {_RANGE} AND {_LIVING} ORDER BY ordinal"
        rows = self.database.execute(query, {**_range(prefix), "now": now})
        return self.synced().seq, rows.fetchall()

    def of_session(self, now: float) -> dict[str, str]:
        """The keys that were written for a session only, with their versions."""
        rows = self.database.execute(
            f"SELECT key, version FROM entries WHERE lifetime = 'session' AND {_LIVING}",
            {"now": now},
        )
        return dict(rows)

    def edges(self, now: float, from_key: str) -> list[Edge]:
        """The links from a key, in the order of their making; none of a key that has expired."""
        return [Edge(*row) for row in self.database.execute(_EDGES, {"key": from_key, "now": now})]

    def first_end(self) -> float:
        """When the next key expires, in Unix seconds."""
        [(first,)] = self.database.execute(
            "SELECT min(expires_at) FROM entries WHERE expires_at > 0"
        )
        return math.inf if first is None else first


class _Folding:
    """The fold of changes, within one transaction: as `foldlog_projections.fold`, in SQL.

    Of one writer's changes of a key, or of a link, the one that was drafted last stands; a change
    that comes a second time has no effect.
    """

    def __init__(self, index: Index, count: int, replaced: Iterable[bytes] = ()) -> None:
        self._index = index
        self._execute = index.database.execute
        self._newest = index.newest([*set(replaced)])
        self._rows: dict[str, list[Any]] = {}
        self._texts: dict[str, Text] = {}
        self._vectors: dict[tuple[str, str], Embedded] = {}
        self._next_end = index.first_end()
        self.count = count

    def apply(self, event: KeyEvent, replaced: bytes) -> None:
        """Fold one event in, after the keys whose time was over when the log recorded it."""
        key, envelope, record, _ = event
        now = envelope.recorded_at
        if isinstance(record, Embedded) or envelope.type == FORKED:
            self._note_end(event)
            if isinstance(record, Embedded):
                self._vectors[key, record.model] = record
            return
        self.count += 1
        if self._next_end <= now:
            self._end(now)
        if envelope.type != CLEARED and envelope.writer:
            known = self._newest.setdefault(replaced, {})
            if envelope.writer in known and envelope.n <= known[envelope.writer]:
                self._note_end(event)
                return
            known[envelope.writer] = envelope.n
        match record:
            case Written():
                self._write(event, record)
            case Linked() if envelope.type == LINKED:
                self._execute(_LINK, (*_edge(record), bytes(record.metadata)))
            case Linked():
                self._execute(_UNLINK, _edge(record))
            case _:
                self._drop(key)
                if envelope.type == CLEARED:
                    self._newest.pop(replaced, None)
                    self._execute(_FORGET, (replaced,))

    def finish(self) -> None:
        """Take in what stands at the end, with its texts and vectors."""
        self._put_rows()
        self._index.put_newest(self._newest)
        self._index.take([*self._texts.values()])
        for (key, model), each in self._vectors.items():
            self._index.put_vectors(model, [(key, each.version, [each.vector])])

    def _write(self, event: KeyEvent, written: Written) -> None:
        key, envelope, _, text = event
        ends = envelope.recorded_at + written.ttl / 1000 if written.ttl >= 0 else 0.0
        if ends:
            self._next_end = min(self._next_end, ends)
        hints = written.tier, written.lifetime, written.content_kind, written.salience
        self._rows[key] = [key, envelope.id, envelope.seq, self.count, ends, *hints]
        assert text is not None, "a value has one"
        self._texts[key] = text

    def _note_end(self, event: KeyEvent) -> None:
        """A key's subject goes further, and its value is what it was."""
        if (row := self._rows.get(event.key)) is not None:
            row[2] = event.envelope.seq
        else:
            self._execute(_ENDS, (event.envelope.seq, event.key))

    def _put_rows(self) -> None:
        self._index.write(self._rows.values())
        self._rows.clear()

    def _drop(self, key: str) -> None:
        self._texts.pop(key, None)
        was_new = self._rows.pop(key, None) is not None
        if self._index.drop(key) or was_new:
            self._execute(_UNLINK_ALL, (key, key))

    def _end(self, now: float) -> None:
        self._put_rows()
        over = "SELECT key FROM entries WHERE expires_at > 0 AND expires_at <= ?"
        for (key,) in self._execute(over, (now,)).fetchall():
            self._drop(key)
        self._next_end = self._index.first_end()


_encode: Final = msgspec.msgpack.Encoder().encode


def _replaced(event: KeyEvent) -> bytes:
    """What a change replaces, if it is newer: its key, or its link."""
    record = event.record
    return _encode(_edge(record) if isinstance(record, Linked) else event.key)


def _edge(link: Linked) -> tuple[str, str, str]:
    return link.from_key, link.to_key, link.relation


def _range(prefix: str) -> dict[str, str | bytes]:
    """The first string with a prefix, and what comes after all of them."""
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return {"first": prefix, "after": b""}  # to SQLite any text comes before any bytes
    following = ord(stem[-1]) + 1
    following = 0xE000 if following == 0xD800 else following  # no character is a surrogate
    return {"first": prefix, "after": stem[:-1] + chr(following)}


def wipe(path: Path) -> None:
    """Have an index's file hold nothing, also for others who have it open and go on with it."""
    index = Index(path)
    try:
        index.wipe()
    finally:
        index.close()


def remove(path: Path) -> None:
    """Remove an index's files; fine if there are none."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


_REMADE: Final = (1, 11, 19, 26)
"""SQLite's codes for a database that is not what it should be: ERROR, CORRUPT, CONSTRAINT, NOTADB.
The extended codes, also FTS5's, have them in their last byte.
"""

DAMAGED: Final = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What a damaged file may raise: what SQLite says of its schema quotes it, and may be no text."""


def is_damage(error: BaseException) -> bool:
    """Whether an error says that a file is not what it should be."""
    return isinstance(error, DAMAGED) and getattr(error, "sqlite_errorcode", 1) & 0xFF in _REMADE
