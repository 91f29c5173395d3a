"""The search index of one scope: a SQLite database that holds nothing which the log has not.

It can be removed at any time: what it lacks is read from the log again. No I/O but SQLite's, and
that blocks: `Search` calls it on a thread.
"""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from foldlog.scoped.text import expression

FORMAT: Final = 2
"""Grows with every change of what is in an index; one of another format is made anew."""

_K1: Final = 1.2
"""What FTS5's bm25 uses; a term can give at most its weight times this and one."""

_LEAST_IDF: Final = 1e-6
"""What FTS5 takes for a term that half of the documents or more have."""

_KEY_WEIGHT: Final = 2.0
_SNIPPET_TOKENS: Final = 16
_OPENING: Final = 160
_LOCK_SECONDS: Final = 10.0
_CACHE_KIB: Final = 8 * 1024

_TABLES: Final = """
CREATE TABLE documents (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, version TEXT NOT NULL, tier TEXT NOT NULL,
    kind TEXT NOT NULL, salience REAL NOT NULL, expires_at REAL NOT NULL
);
CREATE VIRTUAL TABLE texts USING fts5(
    key, body, tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TABLE vectors (
    id INTEGER NOT NULL, model TEXT NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (id, model)
) WITHOUT ROWID;
CREATE TABLE synced (count INTEGER NOT NULL, version TEXT NOT NULL);
"""
_TAKEN: Final = """
CREATE TEMP TABLE taken (
    key TEXT NOT NULL UNIQUE, version TEXT NOT NULL, body TEXT NOT NULL, tier TEXT NOT NULL,
    kind TEXT NOT NULL, salience REAL NOT NULL, expires_at REAL NOT NULL
)
"""
_TAKE: Final = "INSERT OR REPLACE INTO taken VALUES (?, ?, ?, ?, ?, ?, ?)"
_TAKE_IN: Final = (
    """
    INSERT INTO documents (key, version, tier, kind, salience, expires_at)
    SELECT key, version, tier, kind, salience, expires_at FROM taken WHERE true
    ON CONFLICT (key) DO UPDATE SET version = excluded.version, tier = excluded.tier,
        kind = excluded.kind, salience = excluded.salience, expires_at = excluded.expires_at
    """,
    # FTS5 gathers what comes in the order of its rows, and writes it out where that is broken.
    """
    INSERT OR REPLACE INTO texts (rowid, key, body)
    SELECT d.id, t.key, t.body FROM taken AS t CROSS JOIN documents AS d ON d.key = t.key
    ORDER BY d.id
    """,
    """
    DELETE FROM vectors WHERE id IN
        (SELECT d.id FROM taken AS t CROSS JOIN documents AS d ON d.key = t.key)
    """,
    "DELETE FROM taken",
)
"""What a page of documents takes: a few statements, in which no other thread is held up."""

_REMOVE: Final = (
    "DELETE FROM texts WHERE rowid = (SELECT id FROM documents WHERE key = ?)",
    "DELETE FROM vectors WHERE id = (SELECT id FROM documents WHERE key = ?)",
    "DELETE FROM documents WHERE key = ?",
)
_MATCHING: Final = """
SELECT d.key, d.salience, -bm25(texts, {weight}, 1.0) AS score
FROM texts JOIN documents AS d ON d.id = texts.rowid
WHERE texts MATCH :words AND {filter}
ORDER BY score DESC, d.salience DESC, d.key LIMIT :limit
"""
_FILTER: Final = """
(d.expires_at = 0 OR d.expires_at > :now)
AND (:tier IS NULL OR d.tier = :tier) AND (:kind IS NULL OR d.kind = :kind)
"""
_SNIPPETS: Final = """
SELECT d.key, snippet(texts, 1, '', '', '…', {tokens})
FROM texts JOIN documents AS d ON d.id = texts.rowid
WHERE texts MATCH ? AND texts.rowid IN (SELECT id FROM documents WHERE key IN ({keys}))
"""
_OPENINGS: Final = """
SELECT key, substr(body, 1, {length}) FROM texts
WHERE rowid IN (SELECT id FROM documents WHERE key IN ({keys}))
"""


class Document(NamedTuple):
    """What can be found of a key: its text, and what searches filter and sort by."""

    key: str
    version: str
    body: str
    tier: str
    kind: str
    salience: float
    expires_at: float


class Filter(NamedTuple):
    """Which documents count: those alive at `now` in Unix seconds, of that tier and kind."""

    now: float
    tier: str | None = None
    kind: str | None = None


class Hit(NamedTuple):
    """A document that matched. `score` from 0 to 1."""

    key: str
    score: float
    salience: float


class Index:
    """One scope's index, in a file or, without a path, in memory. Who uses it holds its `lock`.

    Every method may raise sqlite3.Error.
    """

    def __init__(self, path: Path | None) -> None:
        self.lock = threading.Lock()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._database = sqlite3.connect(
            path or ":memory:",
            isolation_level=None,
            check_same_thread=False,
            timeout=_LOCK_SECONDS,
        )
        try:
            if path is not None:
                path.chmod(0o600)
                self._database.execute("PRAGMA journal_mode = WAL")
                self._database.execute("PRAGMA synchronous = NORMAL")
            self._database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            self._database.execute("PRAGMA temp_store = MEMORY")
            self._make()
            self._database.execute(_TAKEN)
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def wipe(self) -> None:
        """Hold nothing any more, and leave nothing of it in the file.

        Raises:
            sqlite3.OperationalError: somebody reads what it held; it may still be on disk.
        """
        with self._transaction():
            for table in ("documents", "texts", "vectors", "synced"):
                self._database.execute(f"DROP TABLE {table}")
            self._make_tables()
        self._database.execute("VACUUM")
        (is_busy, *_) = self._one("PRAGMA wal_checkpoint(TRUNCATE)")
        if is_busy:  # which SQLite tells in a row, not by an error
            error = sqlite3.OperationalError("the index is being read")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error

    def synced(self) -> tuple[int, str]:
        """Up to where the scope's index was taken in: how many envelopes, and the last one's id."""
        found: tuple[int, str] | None = self._one("SELECT count, version FROM synced")
        return found or (0, "")

    def versions(self, keys: Sequence[str] | None = None) -> dict[str, str]:
        """The version of each document, or of those with these keys."""
        if keys is None:
            return dict(self._database.execute("SELECT key, version FROM documents"))
        found: dict[str, str] = {}
        for start in range(0, len(keys), 500):
            some = keys[start : start + 500]
            query = f"SELECT key, version FROM documents WHERE key IN ({_marks(some)})"
            found.update(self._database.execute(query, some))
        return found

    def apply(
        self,
        documents: Iterable[Document],
        removed: Iterable[str] = (),
        synced: tuple[int, str] | None = None,
    ) -> None:
        """Let documents go, take others in, and note how far that goes: all or nothing."""
        with self._transaction():
            gone = [(key,) for key in removed]
            for statement in _REMOVE:
                self._database.executemany(statement, gone)
            self._database.executemany(_TAKE, documents)
            for statement in _TAKE_IN:
                self._database.execute(statement)
            if synced is not None:
                self._database.execute("DELETE FROM synced")
                self._database.execute("INSERT INTO synced VALUES (?, ?)", synced)

    def matching(self, words: list[str], which: Filter, limit: int) -> list[Hit]:
        """The documents that have at least one of the words, best first.

        A score is the share of what a document could have at most, by BM25.
        """
        if not words:
            return []
        most = sum(map(self._weight, words)) * (_K1 + 1)
        query = _MATCHING.format(weight=_KEY_WEIGHT, filter=_FILTER)
        rows = self._database.execute(
            query, {"words": expression(words), "limit": limit, **which._asdict()}
        )
        return [Hit(key, min(score / most, 1.0), salience) for key, salience, score in rows]

    def snippets(self, words: list[str], keys: Sequence[str]) -> dict[str, str]:
        """What of each document is worth showing: around the words, or else how it begins."""
        marks = _marks(keys)
        openings = _OPENINGS.format(length=_OPENING, keys=marks)
        found = dict(self._database.execute(openings, list(keys)))
        if words:
            around = _SNIPPETS.format(tokens=_SNIPPET_TOKENS, keys=marks)
            found.update(self._database.execute(around, [expression(words), *keys]))
        return found

    def lacking(self, model: str, after: int, limit: int) -> list[tuple[int, str, str]]:
        """Documents, by id, version and text, without a vector of that model; ids above `after`."""
        return self._database.execute(
            "SELECT t.rowid, d.version, t.key || char(10) || t.body"
            " FROM texts AS t JOIN documents AS d ON d.id = t.rowid WHERE t.rowid > ?"
            " AND NOT EXISTS (SELECT 1 FROM vectors WHERE model = ? AND id = t.rowid)"
            " ORDER BY t.rowid LIMIT ?",
            (after, model, limit),
        ).fetchall()

    def put_vectors(self, model: str, vectors: Iterable[tuple[int, str, bytes]]) -> None:
        """Keep vectors, by document and version: 32-bit floats of length 1.

        One of a document that another process has changed meanwhile is of no use.
        """
        with self._transaction():
            self._database.executemany(
                "INSERT OR REPLACE INTO vectors (model, id, vector)"
                " SELECT ?, id, ? FROM documents WHERE id = ? AND version = ?",
                ((model, vector, id, version) for id, version, vector in vectors),
            )

    def vectors(self, model: str, which: Filter) -> sqlite3.Cursor:
        """The documents' keys, saliences and vectors."""
        return self._database.execute(
            "SELECT d.key, d.salience, v.vector FROM vectors AS v JOIN documents AS d USING (id)"
            f" WHERE v.model = :model AND {_FILTER}",
            {"model": model, **which._asdict()},
        )

    def _make(self) -> None:
        with self._transaction():
            (format,) = self._one("PRAGMA user_version") or (0,)
            if format == FORMAT:
                return
            if format:
                raise sqlite3.DatabaseError(f"format {format} is not {FORMAT}")
            self._make_tables()
            self._database.execute(f"PRAGMA user_version = {FORMAT}")

    def _make_tables(self) -> None:
        for statement in _TABLES.split(";"):
            self._database.execute(statement)

    def _weight(self, word: str) -> float:
        """A word's inverse document frequency, as FTS5's bm25 computes it."""
        (documents,) = self._one("SELECT count(*) FROM documents") or (0,)
        (having,) = self._one(
            "SELECT count(*) FROM texts WHERE texts MATCH ?", (expression([word]),)
        ) or (0,)
        odds = (documents - having + 0.5) / (having + 0.5)
        return max(math.log(odds), _LEAST_IDF)

    def _one(self, query: str, values: Sequence[Any] = ()) -> Any:
        rows = self._database.execute(query, values).fetchall()
        return rows[0] if rows else None

    @contextmanager
    def _transaction(self) -> Any:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")


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


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
