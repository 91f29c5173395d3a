"""What searches of one scope ask its index: texts by their words, and vectors. They block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from foldlog.scoped.index import Index
from foldlog.scoped.text import around, expression, parts_of, text_of

_K1: Final = 1.2
"""What FTS5's bm25 uses; a term can give at most its weight times this and one."""

_LEAST_IDF: Final = 1e-6
"""What FTS5 takes for a term that half of the documents or more have."""

_KEY_WEIGHT: Final = 2.0
_SNIPPET_TOKENS: Final = 16

_ROWS: Final = 8000
"""Documents in a statement, in which SQLite takes 32,766 values. FTS5 writes a piece of its index
for each statement, and Python's lock is let go of for as long as one runs.
"""

_TAKE: Final = """
INSERT OR REPLACE INTO texts (rowid, key, body, parts)
SELECT e.id, t.column1, t.column3, t.column4 FROM (VALUES {rows}) AS t
CROSS JOIN entries AS e ON e.key = t.column1 AND e.version = t.column2 ORDER BY e.id
"""
_TAKEN: Final = """
UPDATE entries SET taken = version WHERE id IN (
    SELECT e.id FROM (VALUES {rows}) AS t
    CROSS JOIN entries AS e ON e.key = t.column1 AND e.version = t.column2
)
"""
"""FTS5 gathers what comes in the order of its rows, and writes it out where that is broken."""

_FILTER: Final = """
e.taken = e.version AND (e.expires_at = 0 OR e.expires_at > :now)
AND (:tier IS NULL OR ifnull(nullif(e.tier, ''), 'hot') = :tier)
AND (:kind IS NULL OR e.kind = :kind)
"""
_SALIENCE: Final = "ifnull(e.salience, 0.5)"
_MATCHING: Final = f"""
SELECT e.key, {_SALIENCE} AS salience, -bm25(texts, {_KEY_WEIGHT}, 1.0, 1.0) AS score
FROM texts JOIN entries AS e ON e.id = texts.rowid
WHERE texts MATCH :words AND {_FILTER}
ORDER BY score DESC, salience DESC, e.key LIMIT :limit
"""
_LACKING: Final = """
SELECT t.rowid, e.version, t.key || char(10) || t.body
FROM texts AS t JOIN entries AS e ON e.id = t.rowid WHERE t.rowid > ? AND e.taken = e.version
AND NOT EXISTS (SELECT 1 FROM vectors WHERE id = t.rowid AND model = ? AND version = e.version)
ORDER BY t.rowid LIMIT ?
"""


class Document(NamedTuple):
    """The text of one version of a key; `parts` is what can be found inside its words."""

    key: str
    version: str
    body: str
    parts: str = ""

    @classmethod
    def of(cls, key: str, version: str, value: Any) -> Document:
        """The text of a value."""
        body = text_of(value)
        return cls(key, version, body, parts_of(f"{key}\n{body}"))


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


def untaken(index: Index) -> dict[str, str]:
    """The keys whose text an index lacks, with their versions."""
    return dict(index.database.execute("SELECT key, version FROM entries WHERE taken <> version"))


def take(index: Index, documents: Iterable[Document]) -> None:
    """Take texts in; those of versions that the index does not name are of no use."""
    taken, execute = list(documents), index.database.execute
    with index.transaction():
        for start in range(0, len(taken), _ROWS):
            some = taken[start : start + _ROWS]
            rows = ", ".join(["(?, ?, ?, ?)"] * len(some))
            execute(_TAKE.format(rows=rows), [*chain.from_iterable(some)])
            rows = ", ".join(["(?, ?)"] * len(some))
            execute(_TAKEN.format(rows=rows), [*chain.from_iterable(each[:2] for each in some)])


def matching(index: Index, words: list[str], which: Filter, limit: int) -> list[Hit]:
    """The documents that have at least one of the words, best first.

    A score is the share of what a document could have at most, by BM25.
    """
    if not words:
        return []
    [(documents,)] = index.database.execute("SELECT count(*) FROM entries")
    most = sum(_weight(index, word, documents) for word in words) * (_K1 + 1)
    asked = {"words": expression(words), "limit": limit, **which._asdict()}
    rows = index.database.execute(_MATCHING, asked)
    return [Hit(key, min(score / most, 1.0), salience) for key, salience, score in rows]


def chosen(index: Index, scores: dict[str, float], which: Filter) -> list[Hit]:
    """Those of the scored keys that count, whether or not their text has a word."""
    query = f"SELECT {_SALIENCE} FROM entries AS e WHERE e.key = :key AND {_FILTER}"
    hits: list[Hit] = []
    for key, score in scores.items():
        row = index.database.execute(query, {"key": key, **which._asdict()}).fetchone()
        if row is not None:
            hits.append(Hit(key, score, row[0]))
    return hits


def snippets(index: Index, words: list[str], keys: Sequence[str]) -> dict[str, str]:
    """What of each document is worth showing: around the words, or else how it begins."""
    marks = ", ".join("?" * len(keys))
    those = f"texts.rowid IN (SELECT id FROM entries WHERE key IN ({marks}))"
    bodies = dict(index.database.execute(f"SELECT key, body FROM texts WHERE {those}", list(keys)))
    cut: dict[str, str] = {}
    if words:
        snippet = f"snippet(texts, 1, '', '', '…', {_SNIPPET_TOKENS})"
        query = f"SELECT key, {snippet} FROM texts WHERE texts MATCH ? AND {those}"
        cut = dict(index.database.execute(query, [expression(words), *keys]))
    return {key: around(words, cut.get(key), body) for key, body in bodies.items()}


def lacking(index: Index, model: str, after: int, limit: int) -> list[tuple[int, str, str]]:
    """Documents, by id, version and text, without a vector of that model; ids above `after`."""
    return index.database.execute(_LACKING, (after, model, limit)).fetchall()


def put_vectors(index: Index, model: str, vectors: Iterable[tuple[int, str, bytes]]) -> None:
    """Keep vectors, by document and version: 32-bit floats of length 1.

    One of a document that another process has changed meanwhile is of no use.
    """
    with index.transaction():
        index.database.executemany(
            "INSERT OR REPLACE INTO vectors (model, id, version, vector)"
            " SELECT ?, id, version, ? FROM entries WHERE id = ? AND version = ?",
            ((model, vector, id, version) for id, version, vector in vectors),
        )


def new_vectors(index: Index, model: str, after: int) -> list[tuple[int, int, bytes]]:
    """The vectors of a model that came after a serial number: theirs, the document, the vector."""
    query = "SELECT serial, id, vector FROM vectors WHERE model = ? AND serial > ? ORDER BY serial"
    return index.database.execute(query, (model, after)).fetchall()


def standing(index: Index, model: str, ids: Sequence[int], which: Filter) -> dict[int, Hit]:
    """Those documents that count and whose vector is of their present version, by id."""
    query = (
        f"SELECT e.id, e.key, {_SALIENCE} FROM entries AS e JOIN vectors AS v USING (id)"
        f" WHERE e.id IN ({', '.join(map(str, ids))}) AND v.model = :model"
        f" AND v.version = e.version AND {_FILTER}"
    )
    rows = index.database.execute(query, {"model": model, **which._asdict()})
    return {id: Hit(key, 0.0, salience) for id, key, salience in rows}


def _weight(index: Index, word: str, documents: int) -> float:
    """A word's inverse document frequency, as FTS5's bm25 computes it."""
    query = "SELECT count(*) FROM texts WHERE texts MATCH ?"
    [(having,)] = index.database.execute(query, (expression([word]),))
    odds = (documents - having + 0.5) / (having + 0.5)
    return max(math.log(odds), _LEAST_IDF)
