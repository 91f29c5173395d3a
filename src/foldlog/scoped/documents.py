"""Documents in SQLite: found by their words (FTS5), and by their vectors.

One search for all: scoped keys, the memory of Google's ADK, and LangGraph's store.

SQLite blocks: call all of it on a thread. Everything may raise sqlite3.Error.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple, Self, TypeVar

from foldlog.batches import in_batches
from foldlog.scoped.text import around, expression, parts_of
from foldlog.scoped.vectors import Matrix

T = TypeVar("T")
D = TypeVar("D", bound="Documents")

Transaction = Literal["IMMEDIATE", "DEFERRED"]

MOST: Final = 2**31
"""Results: more than there ever are, and within what SQLite counts."""

_LOCK_SECONDS: Final = 10.0
_LOCK_PAUSE: Final = 0.01
_CACHE_KIB: Final = 8 * 1024

TABLES: Final = """
CREATE TABLE entries (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, version TEXT NOT NULL,
    seq INTEGER NOT NULL DEFAULT 0, ordinal INTEGER NOT NULL DEFAULT 0,
    expires_at REAL NOT NULL DEFAULT 0, tier TEXT NOT NULL DEFAULT '',
    lifetime TEXT NOT NULL DEFAULT '', kind TEXT NOT NULL DEFAULT '', salience REAL
);
CREATE VIRTUAL TABLE texts USING fts5(
    title, body, parts,
    tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
);
INSERT INTO texts (texts, rank) VALUES ('automerge', 0);
INSERT INTO texts (texts, rank) VALUES ('crisismerge', 64);
INSERT INTO texts (texts, rank) VALUES ('hashsize', 33554432);
CREATE TABLE IF NOT EXISTS vectors (
    serial INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL, model TEXT NOT NULL,
    part INTEGER NOT NULL, vector BLOB NOT NULL, UNIQUE (id, model, part)
)
"""
"""FTS5 gathers up to 32 MB before it writes, and merges what it wrote only where 64 pieces are of
one size: a large scope is taken in twice as fast, and searched as fast."""

NAMES: Final = ("entries", "texts")

_WRITE: Final = """
INSERT INTO entries (key, version, seq, ordinal, expires_at, tier, lifetime, kind, salience)
VALUES {rows}
ON CONFLICT (key) DO UPDATE SET version = excluded.version, seq = excluded.seq,
    ordinal = excluded.ordinal, expires_at = excluded.expires_at, tier = excluded.tier,
    lifetime = excluded.lifetime, kind = excluded.kind, salience = excluded.salience
"""
_TEXTS: Final = """
INSERT INTO texts (rowid, title, body, parts)
SELECT e.id, t.column2, t.column3, t.column4 FROM (VALUES {rows}) AS t
CROSS JOIN entries AS e ON e.key = t.column1 ORDER BY e.id
"""
"""FTS5 gathers what comes in the order of its rows, and writes it out where that is broken."""

_VECTOR: Final = """
INSERT OR IGNORE INTO vectors (id, model, part, vector)
SELECT id, ?, ?, ? FROM entries WHERE key = ? AND version = ?
"""
_DROP: Final = (
    "DELETE FROM texts WHERE rowid = ?",
    "DELETE FROM vectors WHERE id = ?",
    "DELETE FROM entries WHERE id = ?",
)

VALUES: Final = 32_766
"""What SQLite takes in a statement. FTS5 writes a piece of its index for each, and Python's lock is
let go of for as long as one runs: a statement for each row would wait for that lock each time.
"""

_AT_ONCE: Final = 1024
"""Documents that are looked up at a time, nearest first."""

_FILTER: Final = """
(e.expires_at = 0 OR e.expires_at > :now)
AND (:tier IS NULL OR ifnull(nullif(e.tier, ''), 'hot') = :tier)
AND (:kind IS NULL OR e.kind = :kind)
"""
_SALIENCE: Final = "ifnull(e.salience, 0.5)"

_K1: Final = 1.2
"""What FTS5's bm25 uses; a term can give at most its weight times this and one."""

_LEAST_IDF: Final = 1e-6
"""What FTS5 takes for a term that half of the documents or more have."""

_TITLE_WEIGHT: Final = 2.0
_SNIPPET_TOKENS: Final = 16

_MATCHING: Final = f"""
SELECT e.key, -bm25(texts, {_TITLE_WEIGHT}, 1.0, 1.0) AS score, {_SALIENCE} AS salience
FROM texts JOIN entries AS e ON e.id = texts.rowid
WHERE texts MATCH :words AND {_FILTER}
ORDER BY score DESC, salience DESC, e.key LIMIT :limit
"""
_LACKING: Final = """
SELECT e.key, e.version, e.seq, t.title || char(10) || t.body
FROM texts AS t JOIN entries AS e ON e.id = t.rowid
WHERE NOT EXISTS (SELECT 1 FROM vectors WHERE id = t.rowid AND model = ?)
ORDER BY t.rowid LIMIT ?
"""


class Text(NamedTuple):
    """The text of a document; `parts` is what can be found inside its words."""

    key: str
    title: str
    body: str
    parts: str

    @classmethod
    def of(cls, key: str, title: str, body: str) -> Self:
        """The text of a document of that key."""
        return cls(key, title, body, parts_of(f"{title}\n{body}"))


class Lacking(NamedTuple):
    """A document without a vector: see `Index` for `seq`."""

    key: str
    version: str
    seq: int
    text: str


class Filter(NamedTuple):
    """Which documents count: those alive at `now` in Unix seconds, of that tier and kind."""

    now: float = 0.0
    tier: str | None = None
    kind: str | None = None


class Hit(NamedTuple):
    """A document that was found."""

    key: str
    score: float
    salience: float


class Documents:
    """Documents in a file or, without a path, in memory. Who uses it holds its `lock`: see `on`."""

    tables: ClassVar[str] = TABLES
    names: ClassVar[tuple[str, ...]] = NAMES
    format: ClassVar[int] = 1
    """Grows with every change of what is in a file; one of another format is made anew."""

    def __init__(self, path: Path | None = None) -> None:
        self.lock: threading.Lock = threading.Lock()
        self.path = path
        self._matrices: dict[str, Matrix] = {}
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.database: sqlite3.Connection = sqlite3.connect(
            path or ":memory:",
            isolation_level=None,
            check_same_thread=False,
            timeout=_LOCK_SECONDS,
        )
        if path is None:
            # Nobody need close it; SQLite warns of databases that nobody closed.
            weakref.finalize(self, self.database.close)
        try:
            if path is not None:
                path.chmod(0o600)
                self._write_ahead()
                self.database.execute("PRAGMA synchronous = NORMAL")
            self.database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            self.database.execute("PRAGMA temp_store = MEMORY")
            self._make()
        except BaseException:
            self.database.close()
            raise

    def _write_ahead(self) -> None:
        """Use a write-ahead log. SQLite's own timeout does not cover that, and who opens a file
        that a killed process has left recovers it first.
        """
        until = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                self.database.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(_LOCK_PAUSE)

    def close(self) -> None:
        """Let go of the file."""
        self.database.close()

    def reset(self) -> None:
        """Hold nothing any more."""
        with self.transaction():
            self.drop_all()

    def wipe(self) -> None:
        """Hold nothing any more, and leave nothing of it in the file, unless somebody reads it."""
        self.reset()
        self.database.execute("VACUUM")
        [(is_busy, *_)] = self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if is_busy:  # which SQLite tells in a row, not by an error
            error = sqlite3.OperationalError("the index is being read")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error

    @contextmanager
    def transaction(self, kind: Transaction = "IMMEDIATE") -> Iterator[None]:
        """Change the database, all or nothing; DEFERRED: read it as it is at one moment."""
        self.database.execute(f"BEGIN {kind}")
        try:
            yield
        except BaseException:
            self.database.execute("ROLLBACK")
            raise
        self.database.execute("COMMIT")

    # --- writing, within a transaction --------------------------------------------------------

    def write(self, rows: Iterable[Sequence[Any]]) -> None:
        """Have documents, without their texts. A row: what `_WRITE` names, or key and version."""
        whole = [row if len(row) > 2 else (*row, *_NOTHING_MORE) for row in rows]
        for some in in_batches(whole, VALUES // 9):
            self._insert(_WRITE, some)

    def _insert(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows by one statement, for whose time Python's lock is free."""
        row = f"({', '.join('?' * len(rows[0]))})"
        filled = statement.format(rows=", ".join([row] * len(rows)))
        self.database.execute(filled, [*chain.from_iterable(rows)])

    def take(self, texts: Sequence[Text]) -> None:
        """Give documents that are there another text; their vectors go."""
        [(last,)] = self.database.execute("SELECT ifnull(max(id), 0) FROM texts_docsize")
        for some in in_batches(texts, VALUES // 4):
            # What is new has nothing to let go of: FTS5 would look for each.
            had = f"SELECT id FROM entries WHERE id <= {last} AND key IN ({_marks(some)})"
            ids = self.database.execute(had, [each.key for each in some]).fetchall()
            for drop in _DROP[:2] if ids else ():
                self.database.executemany(drop, ids)
            self._insert(_TEXTS, some)

    def put_vectors(self, model: str, made: Iterable[tuple[str, str, Sequence[bytes]]]) -> None:
        """Keep vectors by key and version; those of another version are of no use."""
        self.database.executemany(
            _VECTOR,
            (
                (model, part, vector, key, version)
                for key, version, vectors in made
                for part, vector in enumerate(vectors)
            ),
        )

    def drop(self, key: str) -> bool:
        """Let go of a document; False if there is none."""
        row = self.database.execute("SELECT id FROM entries WHERE key = ?", (key,)).fetchone()
        if row is not None:
            for statement in _DROP:
                self.database.execute(statement, row)
        return row is not None

    def drop_all(self) -> None:
        """Let go of all."""
        self._matrices.clear()
        self.database.execute("DELETE FROM vectors")  # whose numbers go on, for others' matrices
        for name in self.names:
            self.database.execute(f"DROP TABLE {name}")
        self._make_tables()

    # --- asking -------------------------------------------------------------------------------

    def matching(self, words: list[str], which: Filter, limit: int = MOST) -> list[Hit]:
        """The documents that have at least one of the words, best first.

        A score is the share of what a document could have at most, by BM25.
        """
        if not words:
            return []
        [(documents,)] = self.database.execute("SELECT count(*) FROM entries")
        most = sum(self._weight(word, documents) for word in words) * (_K1 + 1)
        asked = {"words": expression(words), "limit": limit, **which._asdict()}
        rows = self.database.execute(_MATCHING, asked)
        return [Hit(key, min(score / most, 1.0), salience) for key, score, salience in rows]

    def nearest(
        self, model: str, query: bytes, which: Filter, limit: int = MOST, *, above: float = 0.0
    ) -> list[Hit]:
        """The `limit` documents with the nearest vectors, best first, and all as near as the last.

        A score is the cosine of the nearest vector; only what has one `above`.
        """
        matrix = self._matrices.setdefault(model, Matrix(model))
        matrix.read_on(self._new_vectors(model, matrix.serial))
        ids, scores = matrix.nearest(query, above)
        hits = dict[int, Hit]()
        least = math.inf
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            standing = self._standing(model, some, which)
            for id, score in zip(some, scores[start : start + _AT_ONCE], strict=True):
                if len(hits) >= limit and score < least:
                    return [*hits.values()]
                if id in standing and id not in hits:
                    hits[id] = standing[id]._replace(score=score)
                    least = score
        return [*hits.values()]

    def chosen(self, scores: Mapping[str, float], which: Filter) -> list[Hit]:
        """Those of the scored keys that count, whether or not their text has a word."""
        query = f"SELECT e.key, 0.0, {_SALIENCE} FROM entries AS e WHERE e.key = :key AND {_FILTER}"
        rows = (
            self.database.execute(query, {"key": key, **which._asdict()}).fetchone()
            for key in scores
        )
        return [Hit(row[0], scores[row[0]], row[2]) for row in rows if row is not None]

    def snippets(self, words: list[str], keys: Sequence[str]) -> dict[str, str]:
        """What of each document is worth showing: around the words, or else how it begins."""
        those = (
            f"FROM texts JOIN entries AS e ON e.id = texts.rowid WHERE e.key IN ({_marks(keys)})"
        )
        bodies = dict(self.database.execute(f"SELECT e.key, body {those}", list(keys)))
        cut: dict[str, str] = {}
        if words:
            snippet = f"snippet(texts, 1, '', '', '…', {_SNIPPET_TOKENS})"
            query = f"SELECT e.key, {snippet} {those} AND texts MATCH ?"
            cut = dict(self.database.execute(query, [*keys, expression(words)]))
        return {key: around(words, cut.get(key), body) for key, body in bodies.items()}

    def lacking(self, model: str, limit: int) -> list[Lacking]:
        """Some documents that have no vector of that model."""
        return [Lacking(*row) for row in self.database.execute(_LACKING, (model, limit))]

    def _standing(self, model: str, ids: Sequence[int], which: Filter) -> dict[int, Hit]:
        """Those documents that count and have vectors, by id."""
        query = (
            f"SELECT e.id, e.key, 0.0, {_SALIENCE} FROM entries AS e"
            f" WHERE e.id IN ({', '.join(map(str, ids))}) AND {_FILTER}"
            " AND EXISTS (SELECT 1 FROM vectors WHERE id = e.id AND model = :model)"
        )
        rows = self.database.execute(query, {"model": model, **which._asdict()})
        return {id: Hit(*row) for id, *row in rows}

    def _new_vectors(self, model: str, after: int) -> list[tuple[int, int, int, bytes]]:
        query = "SELECT serial, id, part, vector FROM vectors WHERE model = ? AND serial > ?"
        return self.database.execute(f"{query} ORDER BY serial", (model, after)).fetchall()

    def _weight(self, word: str, documents: int) -> float:
        """A word's inverse document frequency, as FTS5's bm25 computes it."""
        query = "SELECT count(*) FROM texts WHERE texts MATCH ?"
        [(having,)] = self.database.execute(query, (expression([word]),))
        odds = (documents - having + 0.5) / (having + 0.5)
        return max(math.log(odds), _LEAST_IDF)

    def _make(self) -> None:
        with self.transaction():
            [(format,)] = self.database.execute("PRAGMA user_version")
            if format == self.format:
                return
            if format:
                raise sqlite3.DatabaseError(f"format {format} is not {self.format}")
            self._make_tables()
            self.database.execute(f"PRAGMA user_version = {self.format}")

    def _make_tables(self) -> None:
        for statement in self.tables.split(";"):
            self.database.execute(statement)


_NOTHING_MORE: Final = (0, 0, 0.0, "", "", "", None)


def _marks(keys: Sequence[Any]) -> str:
    return ", ".join("?" * len(keys))


async def on(documents: D, function: Callable[[D], T], *, within: Transaction | None = None) -> T:
    """Call a function of documents on a thread; inside a transaction, it sees one moment.

    What was cancelled here may still be under way there, so they are locked.
    """

    def locked() -> T:
        with documents.lock, nullcontext() if within is None else documents.transaction(within):
            return function(documents)

    return await asyncio.to_thread(locked)
