"""What a search of items finds, and in which order."""

from __future__ import annotations

import operator
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from foldlog.scoped import EmbedderFailed
from foldlog.scoped.text import expression, parts_of, terms
from foldlog.scoped.vectors import numpy
from foldlog_projections.langgraphnamespaces import Added, Tree

Labels = tuple[str, ...]
"""A namespace."""

Meets = Callable[[Any], bool]

_MISSING: Final = object()

_OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}

_TEXTS: Final = """
CREATE VIRTUAL TABLE texts USING fts5(
    body, parts, content = '',
    tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
)
"""
"""Words as scoped state has them, so that both find the same."""

_TAKE: Final = "INSERT INTO texts (rowid, body, parts) VALUES (?, ?, ?)"
_MATCHING: Final = "SELECT rowid, -bm25(texts) FROM texts WHERE texts MATCH ?"

_MOST_WORDS: Final = 100_000
"""Texts that are indexed before those that nobody asks for any more are let go of."""

Scores = list[float | None]


# --- namespaces -----------------------------------------------------------------------------------


def is_listed(tree: Tree, added: Added) -> bool:
    """Whether a tree holds a namespace already, and whether its items can expire."""
    node: Any = tree
    for label in added.labels:
        if (node := node.get(label)) is None:
            return False
    return bool(node.get("", False)) or ("" in node and not added.expires)


def namespaces(tree: Tree, prefix: Sequence[str] = ()) -> Iterator[Labels]:
    """Yield the namespaces that begin with labels, in order."""
    node: Any = tree
    for label in prefix:
        node = node.get(label) if label else None
        if node is None:
            return
    yield from _below(node, tuple(prefix))


def _below(node: Tree, labels: Labels) -> Iterator[Labels]:
    if "" in node:
        yield labels
    for label in sorted(node):
        if label:
            yield from _below(node[label], (*labels, label))


def expiring(tree: Tree) -> list[Labels]:
    """The namespaces that have had items with a time, in order."""

    def expires(labels: Labels) -> bool:
        node: Any = tree
        for label in labels:
            node = node[label]
        return bool(node[""])

    return list(filter(expires, namespaces(tree)))


def is_matched(labels: Labels, match_type: str, path: Sequence[str]) -> bool:
    """Whether a namespace begins, or ends, with a path in which "*" stands for any one label.

    Raises:
        ValueError: the match type is neither "prefix" nor "suffix".
    """
    if match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {match_type}")
    if len(path) > len(labels):
        return False
    part = labels[: len(path)] if match_type == "prefix" else labels[len(labels) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


# --- filters --------------------------------------------------------------------------------------


def matcher(filter: Mapping[str, Any] | None) -> Meets:
    """Return what tells whether a value has what a filter asks for.

    A field with dots in its name is looked for as it is, and then as a path. A condition is a value
    to equal, a mapping of operators, or a mapping whose fields are conditions.

    Raises:
        ValueError: an operator is unknown.
    """
    return _every([_of_field(name, _condition(each)) for name, each in (filter or {}).items()])


def _every(tests: Sequence[Meets]) -> Meets:
    return tests[0] if len(tests) == 1 else lambda found: all(meets(found) for meets in tests)


def _of_field(name: str, meets: Meets) -> Meets:
    return lambda value: meets(_field(value, name))


def _field(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        return None
    found = value.get(name, _MISSING)
    if found is _MISSING and "." in name:
        head, rest = name.split(".", 1)
        return _field(value.get(head), rest)
    return None if found is _MISSING else found


def _condition(condition: Any) -> Meets:
    """What tells whether a field meets a condition."""
    if isinstance(condition, dict):
        if any(str(name).startswith("$") for name in condition):
            return _every([_comparison(name, wanted) for name, wanted in condition.items()])
        fields = [(name, _condition(each)) for name, each in condition.items()]
        return lambda found: (
            isinstance(found, dict) and all(meets(found.get(name)) for name, meets in fields)
        )
    if isinstance(condition, list | tuple):
        parts = list(map(_condition, condition))
        return lambda found: (
            isinstance(found, list | tuple)
            and len(found) == len(parts)
            and all(meets(each) for meets, each in zip(parts, found, strict=True))
        )
    return lambda found: bool(found == condition)


def _comparison(name: str, wanted: Any) -> Meets:
    compare = _OPERATORS.get(name)
    if compare is None:
        raise ValueError(f"Unsupported operator: {name}")
    if name in ("$eq", "$ne"):
        return lambda found: bool(compare(found, wanted))
    number = _number(wanted)

    def compares(found: Any) -> bool:
        if isinstance(found, str) and isinstance(wanted, str):
            return bool(compare(found, wanted))
        other = _number(found)  # what cannot be compared is neither more nor less
        return other is not None and number is not None and bool(compare(other, number))

    return compares


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


# --- ranking --------------------------------------------------------------------------------------


class Words:
    """The words of texts, in this process: an index that holds no text, and grows as it is asked.

    Texts go by an id, and never change under it. Blocks: call it on a thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._close: Callable[[], object] = lambda: None
        self._start_over()

    def _start_over(self) -> None:
        self._close()
        self._rows: dict[str, int] = {}
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._close = weakref.finalize(self, self._database.close)
        self._database.execute(_TEXTS)

    def scores(self, ids: Sequence[str], text_at: Callable[[int], str], query: str) -> Scores:
        """Return for each text how well it answers a query, from 0 to 1; None without a word of it.

        By BM25. A text that is not known yet, some 50 microseconds' work, comes from `text_at`.
        """
        scores: Scores = [None] * len(ids)
        words = terms(query)
        if not words:
            return scores
        with self._lock:
            new = [number for number, id in enumerate(ids) if id not in self._rows]
            if len(self._rows) + len(new) > max(_MOST_WORDS, 2 * len(ids)):
                self._start_over()  # most of them are of no use any more
                new = list(range(len(ids)))
            for number in new:
                text = text_at(number)
                row = self._rows[ids[number]] = len(self._rows)
                self._database.execute(_TAKE, (row, text, parts_of(text)))
            found = dict(self._database.execute(_MATCHING, (expression(words),)))
            for number, id in enumerate(ids):
                if (score := found.get(self._rows[id])) is not None:
                    scores[number] = score / (1.0 + score)
        return scores


def vector_scores(vectors: Sequence[Sequence[bytes]], query: bytes, model: str) -> Scores:
    """Return for each item the cosine of its nearest vector; None for one that has no vectors.

    Call it on a thread.

    Raises:
        EmbedderFailed: the vectors are not all of one length. ConfigurationError: no numpy.
    """
    np = numpy()
    scores: Scores = [None] * len(vectors)
    owners = [number for number, each in enumerate(vectors) for _ in each]
    rows = [vector for each in vectors for vector in each]
    if any(len(row) != len(query) for row in rows):
        raise EmbedderFailed(f"the vectors of {model!r} are not all of one length")
    matrix = np.frombuffer(b"".join(rows), dtype=np.float32).reshape(len(rows), len(query) // 4)
    # To six places: the same vector may give another last digit in another row.
    cosines = np.round(matrix @ np.frombuffer(query, dtype=np.float32), 6).tolist()
    for owner, cosine in zip(owners, cosines, strict=True):
        best = scores[owner]
        scores[owner] = cosine if best is None else max(best, cosine)
    return scores
