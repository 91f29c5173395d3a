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
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from foldlog.envelope import CLEARED, FORKED, Recorded
from foldlog.errors import LogCorrupt
from foldlog.log.port import Record
from foldlog.scoped.records import key_of
from foldlog.upcasting import UPCASTERS
from foldlog_projections import scoped
from foldlog_projections.scoped import OWN, Linked, Written

FORMAT: Final = 5
"""Grows with every change of what is in an index; one of another format is made anew."""

_LISTED_OFTEN: Final = 4
"""Lists after which the keys are in memory: some 80 bytes for each."""

_ENTRIES: Final = 10_000
_LARGE_FOLD: Final = 256
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
INSERT INTO texts (texts, rank) VALUES ('crisismerge', 64);
INSERT INTO texts (texts, rank) VALUES ('hashsize', 33554432);
CREATE TABLE vectors (
    serial INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL, model TEXT NOT NULL,
    version TEXT NOT NULL, vector BLOB NOT NULL, UNIQUE (id, model)
)
"""
"""FTS5 gathers up to 32 MB before it writes, and merges what it wrote only where 64 pieces are of
one size: a large scope is taken in twice as fast, and searched as fast."""

_NAMES: Final = ("entries", "links", "newest", "synced", "texts", "vectors")

_NEWEST: Final = """
INSERT INTO newest VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET n = excluded.n WHERE excluded.n > n
"""
_FORGET: Final = "DELETE FROM newest WHERE replaced = ?"
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


class Known:
    """What an index has in memory of its rows, as of `at`, for reads that come again and again:
    the keys, sorted, once they were listed often, and the entries that were read last.

    Until `first_end` nothing of it is over.
    """

    def __init__(self, at: Synced, first_end: float) -> None:
        self.at = at
        self.first_end = first_end
        self.names: list[str] | None = None
        self.entries: dict[str, Entry] = {}
        self._lists = 0

    def listed(self, load: Callable[[], list[str]]) -> None:
        """Take note that keys were listed; `load` gives all of them."""
        self._lists += 1
        if self._lists == _LISTED_OFTEN:
            self.names = load()

    def read(self, key: str, entry: Entry) -> None:
        """Take note of what a key has."""
        if len(self.entries) >= _ENTRIES:
            self.entries.clear()
        self.entries[key] = entry

    def changed(self, key: str, *, is_there: bool) -> None:
        """Take note that a key was written or dropped."""
        self.entries.pop(key, None)
        if self.names is None:
            return
        at = bisect_left(self.names, key)
        is_known = self.names[at : at + 1] == [key]
        if is_there and not is_known:
            self.names.insert(at, key)
        elif is_known and not is_there:
            del self.names[at]

    def keys(self, now: float, prefix: str) -> list[str] | None:
        """The keys that begin with `prefix`; None if they are not here."""
        if self.names is None or now >= self.first_end:
            return None
        bounds = _range(prefix)
        after = bounds["after"]
        end = bisect_left(self.names, after) if isinstance(after, str) else len(self.names)
        return self.names[bisect_left(self.names, prefix) : end]

    def entry(self, now: float, key: str) -> Entry | None:
        """What a key has; None if that is not here."""
        return self.entries.get(key) if now < self.first_end else None


class Index:
    """One scope's index, in a file or, without a path, in memory. Who uses it holds its `lock`.

    `matrices` are vectors in memory, by model; `known`: what else is. All may raise sqlite3.Error.
    """

    def __init__(self, path: Path | None) -> None:
        self.lock: threading.Lock = threading.Lock()
        self.path = path
        self.matrices: dict[str, Any] = {}
        self.known: Known = Known(Synced(), math.inf)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.database: sqlite3.Connection = sqlite3.connect(
            path or ":memory:",
            isolation_level=None,
            check_same_thread=False,
            timeout=_LOCK_SECONDS,
        )
        if path is None:
            # A store of the past need not be closed; SQLite warns of databases that nobody closed.
            weakref.finalize(self, self.database.close)
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
        """Hold nothing any more, and leave nothing of it in the file, unless somebody reads it."""
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
        """Fold records that follow `since`, all or none, and return how far the index goes then.

        None if it has gone on from there meanwhile.
        """
        with self.transaction():
            if self.synced() != since:
                self.matrices.clear()  # it may have been emptied
                return None
            if self.known.at != since or len(records) > _LARGE_FOLD:
                self.known = Known(since, math.inf)
            folding = _Folding(self.database, since.changes, self.known)
            for record in records:
                if record.seq > since.seq:
                    for envelope in record.envelopes:
                        key = key_of(record.subject, envelope)
                        if envelope.type == CLEARED and key == OWN:
                            self._reset()
                            folding = _Folding(self.database, 0, self.known)
                        elif envelope.type != FORKED:
                            folding.apply(key, envelope)
            last = records[-1].envelopes[-1]
            synced = Synced(last.seq, last.id, folding.count)
            self.database.execute("DELETE FROM synced")
            self.database.execute("INSERT INTO synced VALUES (?, ?, ?)", synced)
            self.known.at, self.known.first_end = synced, folding.next_end
        return synced

    # --- reading ----------------------------------------------------------------------------------

    def keys(self, now: float, prefix: str) -> list[str]:
        """The keys that begin with `prefix`, sorted by code points; `now` in Unix seconds."""
        query = f"SELECT key FROM entries WHERE {_RANGE} AND {_LIVING} ORDER BY key"
        rows = self.database.execute(query, {**_range(prefix), "now": now})
        self._current_known().listed(self._all_keys)
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
        row = self.one(query, {"key": key, "now": now})
        if row is None:
            return None
        self._current_known().read(key, entry := Entry(*row))
        return entry

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

    # --- SQLite -----------------------------------------------------------------------------------

    def one(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Any:
        """The first row, or None."""
        rows = self.database.execute(query, values).fetchall()
        return rows[0] if rows else None

    @contextmanager
    def transaction(self, kind: Literal["IMMEDIATE", "DEFERRED"] = "IMMEDIATE") -> Iterator[None]:
        """Change the database, all or nothing; DEFERRED: read it as it is at one moment."""
        self.database.execute(f"BEGIN {kind}")
        try:
            yield
        except BaseException:
            self.known = Known(Synced(), math.inf)
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

    def _current_known(self) -> Known:
        """What is in memory, unless others have gone on with the file since."""
        synced = self.synced()
        if self.known.at != synced:
            self.known = Known(synced, _first_end(self.database))
        return self.known

    def _all_keys(self) -> list[str]:
        return [key for (key,) in self.database.execute("SELECT key FROM entries ORDER BY key")]

    def _reset(self) -> None:
        self.matrices.clear()
        self.known = Known(Synced(), math.inf)
        for name in _NAMES:
            self.database.execute(f"DROP TABLE {name}")
        self._make_tables()


class _Folding:
    """The fold of changes, within one transaction: as `foldlog_projections.fold`, in SQL.

    Of one writer's changes of a key, or of a link, the one that was drafted last stands; a change
    that comes a second time has no effect.
    """

    def __init__(self, database: sqlite3.Connection, count: int, known: Known) -> None:
        self._database = database
        self._known = known
        self.count = count
        self.next_end = _first_end(database)

    def apply(self, key: str, envelope: Recorded) -> None:
        """Fold one change in, after the keys whose time was over when the log recorded it."""
        is_gone = envelope.type in (CLEARED, scoped.DELETED)
        record = None if is_gone else _decoded(envelope)
        now = envelope.recorded_at
        self.count += 1
        if self.next_end <= now:
            self._end(now)
        if envelope.type != CLEARED and envelope.writer:
            replaced = _edge(record) if isinstance(record, Linked) else key
            newest = (_encode(replaced), envelope.writer, envelope.n)
            if not self._database.execute(_NEWEST, newest).rowcount:
                return
        match record:
            case None:
                self._drop(key)
                if envelope.type == CLEARED:
                    self._database.execute(_FORGET, (_encode(key),))
            case Written():
                self._write(key, record, envelope.id, now)
            case Linked() if envelope.type == scoped.LINKED:
                self._database.execute(_LINK, (*_edge(record), bytes(record.metadata)))
            case Linked():
                self._database.execute(_UNLINK, _edge(record))

    def _write(self, key: str, written: Written, version: str, now: float) -> None:
        ends = now + written.ttl / 1000 if written.ttl >= 0 else 0.0
        if ends:
            self.next_end = min(self.next_end, ends)
        hints = written.tier, written.lifetime, written.content_kind, written.salience
        self._database.execute(_WRITE, (key, version, self.count, ends, *hints))
        self._known.changed(key, is_there=True)

    def _drop(self, key: str) -> None:
        found = self._database.execute("SELECT id FROM entries WHERE key = ?", (key,)).fetchone()
        if found:
            for statement in _DROP:
                self._database.execute(statement, {"id": found[0], "key": key})
            self._known.changed(key, is_there=False)

    def _end(self, now: float) -> None:
        over = "SELECT key FROM entries WHERE expires_at > 0 AND expires_at <= ?"
        for (key,) in self._database.execute(over, (now,)).fetchall():
            self._drop(key)
        self.next_end = _first_end(self._database)


def _first_end(database: sqlite3.Connection) -> float:
    [(first,)] = database.execute("SELECT min(expires_at) FROM entries WHERE expires_at > 0")
    return math.inf if first is None else first


_encode: Final = msgspec.msgpack.Encoder().encode


def _decoded(envelope: Recorded) -> Any:
    try:
        return scoped.kind.decode(UPCASTERS.bring_up(envelope))
    except msgspec.MsgspecError as error:
        raise LogCorrupt(scoped.kind.name, envelope.seq, str(error)) from error


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
