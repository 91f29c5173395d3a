"""Vectors of texts: what an embedder gives, and what is closest to it.

numpy is needed for these only. It comes with `foldlog[semantic]` and `foldlog[langgraph]`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from foldlog.errors import ConfigurationError
from foldlog.scoped import texts
from foldlog.scoped.errors import EmbedderFailed
from foldlog.scoped.index import Index
from foldlog.scoped.texts import Filter, Hit

Embedder = Callable[[list[str]], Any]
"""Given texts, returns a vector of numbers for each, or an awaitable of that. A plain function is
called on a thread. What has a `name` is known by it: vectors of two names are never compared.
"""

_AT_ONCE: Final = 1024
"""Documents that are looked up at a time, nearest first."""


def name_of(embedder: Embedder) -> str:
    """The name under which an embedder's vectors are saved."""
    named = getattr(embedder, "name", None)
    if isinstance(named, str) and named:
        return named
    return f"{embedder.__module__}.{getattr(embedder, '__qualname__', type(embedder).__qualname__)}"


async def embed(
    embedder: Embedder, texts: list[str], run: Callable[..., Awaitable[Any]]
) -> list[bytes]:
    """Return the texts' vectors, as the index keeps them; `run` calls a function on a thread."""
    numpy()
    try:
        if inspect.iscoroutinefunction(embedder):
            found = await embedder(texts)
        else:
            found = await run(embedder, texts)
            if inspect.isawaitable(found):
                found = await found
    except Exception as error:
        raise EmbedderFailed(f"the embedder raised {type(error).__name__}: {error}") from error
    return _as_bytes(found, len(texts))


def nearest(index: Index, model: str, query: bytes, which: Filter, limit: int) -> list[Hit]:
    """The `limit` documents whose vectors are nearest, best first, and all as near as the last one.

    Only what has a score above 0.
    """
    np = numpy()
    matrix = index.matrices.setdefault(model, _Matrix())
    matrix.read_on(index, model)
    scores = np.clip(matrix.product(np.frombuffer(query, dtype=np.float32), model), 0.0, 1.0)
    order = np.argsort(-scores, kind="stable")
    hits: list[Hit] = []
    for start in range(0, len(order), _AT_ONCE):
        rows = [row for row in order[start : start + _AT_ONCE].tolist() if scores[row] > 0]
        found = texts.standing(index, model, [matrix.ids[row] for row in rows], which)
        for row in rows:
            if len(hits) >= limit and scores[row] < hits[limit - 1].score:
                return hits
            if (hit := found.get(matrix.ids[row])) is not None:
                hits.append(hit._replace(score=float(scores[row])))
        if len(rows) < _AT_ONCE:
            break
    return hits


class _Matrix:
    """The vectors of one model, in memory: a row for each document that has, or had, one."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self._rows: dict[int, int] = {}
        self._vectors: Any = None
        self._serial = 0

    def read_on(self, index: Index, model: str) -> None:
        """Take in the vectors that are new."""
        np = numpy()
        found = texts.new_vectors(index, model, self._serial)
        if not found:
            return
        if self._vectors is None:
            self._vectors = np.empty((len(found), len(found[0][2]) // 4), dtype=np.float32)
        needed, length = len(self.ids) + len(found), self._vectors.shape[1]
        if any(len(vector) != 4 * length for _, _, vector in found):
            raise EmbedderFailed(f"the vectors of {model!r} are not all of one length")
        if needed > len(self._vectors):
            grown = np.empty((2 * needed, length), dtype=np.float32)
            grown[: len(self.ids)] = self._vectors[: len(self.ids)]
            self._vectors = grown
        for serial, id, vector in found:
            row = self._rows.setdefault(id, len(self.ids))
            if row == len(self.ids):
                self.ids.append(id)
            self._vectors[row] = np.frombuffer(vector, dtype=np.float32)
            self._serial = serial

    def product(self, query: Any, model: str) -> Any:
        """The product of each vector and the query, by row."""
        if self._vectors is None:
            return numpy().empty(0)
        if self._vectors.shape[1] != len(query):
            raise EmbedderFailed(f"the vectors of {model!r} are not all of one length")
        return self._vectors[: len(self.ids)] @ query


def numpy() -> Any:
    """The module, or ConfigurationError if it is missing."""
    try:
        import numpy as np
    except ImportError:
        raise ConfigurationError("vectors need numpy: pip install 'foldlog[semantic]'") from None
    return np


def _as_bytes(found: Sequence[Any], count: int) -> list[bytes]:
    np = numpy()
    try:
        matrix = np.asarray(found, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbedderFailed(f"the embedder gave no vectors: {error}") from error
    if matrix.ndim != 2 or matrix.shape[0] != count or not np.isfinite(matrix).all():
        raise EmbedderFailed(f"the embedder gave {matrix.shape} for {count} texts")
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    unit = matrix / np.where(norms == 0, 1.0, norms)
    return [row.tobytes() for row in unit.astype(np.float32)]
