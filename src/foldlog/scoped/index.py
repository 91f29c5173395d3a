"""The index of one scope: a SQLite database that holds nothing which the log has not.

It folds the changes of the scope: which keys there are, with their hints, and how they are linked.
The texts of values, for searches, are beside them: `foldlog.scoped.texts`. It can be removed at
any time: what it lacks is read from the log again. SQLite blocks: `Indexes` calls it on threads.

Time is the log's: an expired key goes with the next change that the log records; readers look at
`expires_at` until then.
"""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from foldlog.envelope import CLEARED, FORKED, Recorded
from foldlog.errors import LogCorrupt
from foldlog.log.port import Record
from foldlog.upcasting import UPCASTERS
from foldlog_projections import scopes
from foldlog_projections.scopes import Deleted, Linked, Written

FORMAT: Final = 3
"""Grows with every change of what is in an index; one of another format is made anew."""

_LOCK_SECONDS: Final = 10.0
_CACHE_KIB: Final = 8 * 1024

_TABLES: Final = """
CREATE TABLE entries (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, version TEXT NOT NULL,
    ordinal INTEGER NOT NULL, expires_at REAL NOT NULL, tier TEXT NOT NULL,
    lifetime TEXT NOT NULL, kind TEXT NOT NULL, salience REAL, taken TEXT NOT NULL DEFAULT ''
);
CREATE INDEX ending ON entries (expires_at) WHERE expires_at > 0;
CREATE INDEX of_session ON entries (id) WHERE lifetime = 'session';
CREATE INDEX lacking ON entries (id) WHERE taken <> version;
CREATE TABLE links (
    id INTEGER PRIMARY KEY, from_key TEXT NOT NULL, to_key TEXT NOT NULL, relation TEXT NOT NULL,
    metadata BLOB NOT NULL, UNIQUE (from_key, to_key, relation)
);
CREATE INDEX incoming ON links (to_key);
CREATE TABLE newest (
    replaced BLOB NOT NULL, writer TEXT NOT NULL, n INTEGER NOT NULL,
    PRIMARY KEY (replaced, writer)
) WITHOUT ROWID;
CREATE TABLE synced (seq INTEGER NOT NULL, id TEXT NOT NULL, changes INTEGER NOT NULL);
CREATE VIRTUAL TABLE texts USING fts5(
    key, body, parts,
    tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
);
INSERT INTO texts (texts, rank) VALUES ('automerge', 0);
INSERT INTO texts (texts, rank) VALUES ('hashsize', 33554432);
CREATE TABLE vectors (
    serial INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL, model TEXT NOT NULL,
    version TEXT NOT NULL, vector BLOB NOT NULL, UNIQUE (id, model)
)
"""
"""FTS5 gathers up to 32 MB before it writes, and merges what it wrote only where 16 pieces are of
one size: a large scope is taken in twice as fast, and searched as fast."""

_NAMES: Final = ("entries", "links", "newest", "synced", "texts", "vectors")

_NEWEST: Final = """
INSERT INTO newest VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET n = excluded.n WHERE excluded.n > n
"""
_WRITE: Final = """
INSERT INTO entries (key, version, ordinal, expires_at, tier, lifetime, kind, salience)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET version = excluded.version, ordinal = excluded.ordinal,
    expires_at = excluded.expires_at, tier = excluded.tier, lifetime = excluded.lifetime,
    kind = excluded.kind, salience = excluded.salience
"""
_DROP: Final = (
    "DELETE FROM texts WHERE rowid = :id",
    "DELETE FROM vectors WHERE id = :id",
    "DELETE FROM entries WHERE id = :id",
    "DELETE FROM links WHERE from_key = :key OR to_key = :key",
)
_LINK: Final = """
INSERT INTO links (from_key, to_key, relation, metadata) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET metadata = excluded.metadata
"""
_UNLINK: Final = "DELETE FROM links WHERE from_key = ? AND to_key = ? AND relation = ?"
_LIVING: Final = "(expires_at = 0 OR expires_at > :now)"
_RANGE: Final = "key >= :first AND key < :after"
_EDGES: Final = """
SELECT to_key, relation, metadata FROM links WHERE from_key = :key AND NOT EXISTS (
    SELECT 1 FROM entries WHERE key IN (:key, to_key) AND expires_at > 0 AND expires_at <= :now
) ORDER BY id
"""


class Entry(NamedTuple):
    """A key that has a value, with its hints. `version` is the id of the change that wrote it."""

    version: str
    tier: str
    lifetime: str
    content_kind: str
    salience: float | None


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


class Index:
    """One scope's index, in a file or, without a path, in memory. Who uses it holds its `lock`.

    `matrices` are its vectors in memory, by model. Every method may raise sqlite3.Error.
    """

    def __init__(self, path: Path | None) -> None:
        self.lock = threading.Lock()
        self.path = path
        self.matrices: dict[str, Any] = {}
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.database = sqlite3.connect(
            path or ":memory:",
            isolation_level=None,
            check_same_thread=False,
            timeout=_LOCK_SECONDS,
        )
        try:
            if path is not None:
                path.chmod(0o600)
                self.database.execute("PRAGMA journal_mode = WAL")
                self.database.execute("PRAGMA synchronous = NORMAL")
            self.database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            self.database.execute("PRAGMA temp_store = MEMORY")
            self._make()
        except BaseException:
            self.database.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self.database.close()

    def reset(self) -> None:
        """Hold nothing any more."""
        with self.transaction():
            self._reset()

    def wipe(self) -> None:
        """Hold nothing any more, and leave nothing of it in the file.

        Raises:
            sqlite3.OperationalError: somebody reads what it held; it may still be on disk.
        """
        self.reset()
        self.database.execute("VACUUM")
        (is_busy, *_) = self.one("PRAGMA wal_checkpoint(TRUNCATE)")
        if is_busy:  # which SQLite tells in a row, not by an error
            error = sqlite3.OperationalError("the index is being read")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error

    # --- folding the changes ----------------------------------------------------------------------

    def synced(self) -> Synced:
        """How far the index goes."""
        found = self.one("SELECT seq, id, changes FROM synced")
        return Synced(*found) if found else Synced()

    def fold(self, records: Sequence[Record], since: Synced) -> Synced | None:
        """Fold records that follow `since`; None if the index has gone on from there meanwhile.

        Returns how far the index goes then.

        Raises:
            LogCorrupt: a record cannot be read. Nothing of these records was folded.
        """
        with self.transaction():
            if self.synced() != since:
                self.matrices.clear()  # it may have been emptied
                return None
            folding = _Folding(self.database, since.changes)
            for record in records:
                if record.seq > since.seq:
                    for envelope in record.envelopes:
                        if envelope.type == CLEARED:
                            self._reset()
                            folding = _Folding(self.database, 0)
                        elif envelope.type != FORKED:
                            folding.apply(envelope)
            last = records[-1].envelopes[-1]
            synced = Synced(last.seq, last.id, folding.count)
            self.database.execute("DELETE FROM synced")
            self.database.execute("INSERT INTO synced VALUES (?, ?, ?)", synced)
        return synced

    # --- reading ----------------------------------------------------------------------------------

    def keys(self, now: float, prefix: str) -> list[str]:
        """The keys that begin with `prefix`, sorted by code points; `now` in Unix seconds."""
        query = f"SELECT key FROM entries WHERE {_RANGE} AND {_LIVING} ORDER BY key"
        rows = self.database.execute(query, {**_range(prefix), "now": now})
        return [key for (key,) in rows]

    def present(self, now: float, prefix: str) -> tuple[Synced, list[tuple[str, str]]]:
        """The keys with that prefix and their versions, in the order of their last writes; and
        how far the index goes.
        """
        query = f"SELECT key, version FROM entries WHERE {_RANGE} AND {_LIVING} ORDER BY ordinal"
        rows = self.database.execute(query, {**_range(prefix), "now": now})
        return self.synced(), rows.fetchall()

    def entry(self, now: float, key: str) -> Entry | None:
        """What a key has, or None."""
        hints = "version, tier, lifetime, kind, salience"
        query = f"SELECT {hints} FROM entries WHERE key = :key AND {_LIVING}"
        row = self.database.execute(query, {"key": key, "now": now}).fetchone()
        return Entry(*row) if row else None

    def of_session(self, now: float) -> dict[str, str]:
        """The keys that were written for a session only, with their versions."""
        rows = self.database.execute(
            f"SELECT key, version FROM entries WHERE lifetime = 'session' AND {_LIVING}",
            {"now": now},
        )
        return dict(rows)

    def edges(self, now: float, from_key: str) -> list[Edge]:
        """The links from a key, in the order in which they were made; none to or from a key whose
        time is over.
        """
        return [Edge(*row) for row in self.database.execute(_EDGES, {"key": from_key, "now": now})]

    # --- SQLite -----------------------------------------------------------------------------------

    def one(self, query: str, values: Sequence[Any] = ()) -> Any:
        """The first row, or None."""
        rows = self.database.execute(query, values).fetchall()
        return rows[0] if rows else None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Change the database: all or nothing."""
        self.database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.database.execute("ROLLBACK")
            raise
        self.database.execute("COMMIT")

    def _make(self) -> None:
        with self.transaction():
            (format,) = self.one("PRAGMA user_version") or (0,)
            if format == FORMAT:
                return
            if format:
                raise sqlite3.DatabaseError(f"format {format} is not {FORMAT}")
            self._make_tables()
            self.database.execute(f"PRAGMA user_version = {FORMAT}")

    def _make_tables(self) -> None:
        for statement in _TABLES.split(";"):
            self.database.execute(statement)

    def _reset(self) -> None:
        self.matrices.clear()
        for name in _NAMES:
            self.database.execute(f"DROP TABLE {name}")
        self._make_tables()


class _Folding:
    """The fold of changes, within one transaction: as `foldlog_projections.fold`, in SQL.

    Of one writer's changes of a key, or of a link, the one that was drafted last stands; a change
    that comes a second time has no effect.
    """

    def __init__(self, database: sqlite3.Connection, count: int) -> None:
        self._database = database
        self.count = count
        self._next_end = self._first_end()

    def apply(self, envelope: Recorded) -> None:
        """Fold one change in, after the keys whose time was over when the log recorded it."""
        record = _decoded(envelope)
        now = envelope.recorded_at
        self.count += 1
        if self._next_end <= now:
            self._end(now)
        if envelope.writer:
            replaced = _encode(record.key if isinstance(record, Written | Deleted) else record[:3])
            newest = (replaced, envelope.writer, envelope.n)
            if not self._database.execute(_NEWEST, newest).rowcount:
                return
        match record:
            case Written():
                self._write(record, envelope.id, now)
            case Deleted(key):
                self._drop(key)
            case (*edge, metadata) if envelope.type == scopes.LINKED:
                self._database.execute(_LINK, (*edge, metadata))
            case (*edge, _):
                self._database.execute(_UNLINK, edge)

    def _write(self, written: Written, version: str, now: float) -> None:
        ends = now + written.ttl / 1000 if written.ttl >= 0 else 0.0
        if ends:
            self._next_end = min(self._next_end, ends)
        hints = written.tier, written.lifetime, written.content_kind, written.salience
        self._database.execute(_WRITE, (written.key, version, self.count, ends, *hints))

    def _drop(self, key: str) -> None:
        found = self._database.execute("SELECT id FROM entries WHERE key = ?", (key,)).fetchone()
        for statement in _DROP if found else ():
            self._database.execute(statement, {"id": found[0], "key": key})

    def _end(self, now: float) -> None:
        over = "SELECT key FROM entries WHERE expires_at > 0 AND expires_at <= ?"
        for (key,) in self._database.execute(over, (now,)).fetchall():
            self._drop(key)
        self._next_end = self._first_end()

    def _first_end(self) -> float:
        [(first,)] = self._database.execute(
            "SELECT min(expires_at) FROM entries WHERE expires_at > 0"
        )
        return math.inf if first is None else first


_encode: Final = msgspec.msgpack.Encoder().encode


def _decoded(envelope: Recorded) -> Any:
    """The record of a change; of a link, its ends, its relation and its metadata."""
    try:
        record = scopes.kind.decode(UPCASTERS.bring_up(envelope))
    except msgspec.MsgspecError as error:
        raise LogCorrupt(scopes.kind.name, envelope.seq, str(error)) from error
    if isinstance(record, Linked):
        return record.from_key, record.to_key, record.relation, bytes(record.metadata)
    return record


def _range(prefix: str) -> dict[str, str | bytes]:
    """The first string with a prefix, and what comes after all of them."""
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return {"first": prefix, "after": b""}  # to SQLite any text comes before any bytes
    following = ord(stem[-1]) + 1
    following = 0xE000 if following == 0xD800 else following  # no character is a surrogate
    return {"first": prefix, "after": stem[:-1] + chr(following)}


def wipe(path: Path) -> None:
    """Have an index's file hold nothing. Unlike `remove` it takes no file from under others who
    have it open, and would go on with it.

    Raises:
        sqlite3.Error: it could not be had, or is damaged.
    """
    index = Index(path)
    try:
        index.wipe()
    finally:
        index.close()


def remove(path: Path) -> None:
    """Remove an index's files; fine if there are none."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
