"""Vectors of texts: what an embedder gives, and what is closest to it.

numpy is needed for these only. It comes with `foldlog[semantic]` and `foldlog[langgraph]`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from foldlog.errors import ConfigurationError
from foldlog.scoped.errors import EmbedderFailed

Embedder = Callable[[list[str]], Any]
"""Given texts, returns a vector of numbers for each, or an awaitable of that. A plain function is
called on a thread. What has a `name` is known by it: vectors of two names are never compared.
"""


def name_of(embedder: Embedder) -> str:
    """The name under which an embedder's vectors are saved."""
    named = getattr(embedder, "name", None)
    if isinstance(named, str) and named:
        return named
    return f"{embedder.__module__}.{getattr(embedder, '__qualname__', type(embedder).__qualname__)}"


async def embed(
    embedder: Embedder, texts: list[str], run: Callable[..., Awaitable[Any]]
) -> list[bytes]:
    """Return the texts' vectors, as they are saved; `run` calls a function on a thread."""
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


class Matrix:
    """The vectors of one model, in memory: a row for each part of a document that has, or had, one.

    `serial` is the number of the last vector that it has.
    """

    def __init__(self, model: str) -> None:
        self.serial: int = 0
        self._model = model
        self._ids: list[int] = []
        self._rows: dict[tuple[int, int], int] = {}
        self._vectors: Any = None

    def read_on(self, found: Sequence[tuple[int, int, int, bytes]]) -> None:
        """Take in vectors that are new: number, document, part and vector of each."""
        if not found:
            return
        np = numpy()
        if self._vectors is None:
            self._vectors = np.empty((len(found), len(found[0][3]) // 4), dtype=np.float32)
        needed, length = len(self._ids) + len(found), self._vectors.shape[1]
        if needed > len(self._vectors):
            grown = np.empty((2 * needed, length), dtype=np.float32)
            grown[: len(self._ids)] = self._vectors[: len(self._ids)]
            self._vectors = grown
        for serial, id, part, vector in found:
            self._check_length(len(vector))
            row = self._rows.setdefault((id, part), len(self._ids))
            if row == len(self._ids):
                self._ids.append(id)
            self._vectors[row] = np.frombuffer(vector, dtype=np.float32)
            self.serial = serial

    def nearest(self, query: bytes, above: float) -> tuple[list[int], list[float]]:
        """The documents with a cosine above that, nearest first, and the cosines, of each part."""
        if self._vectors is None:
            return [], []
        self._check_length(len(query))
        np = numpy()
        product = self._vectors[: len(self._ids)] @ np.frombuffer(query, dtype=np.float32)
        # To six places: the same vector may give another last digit in another row.
        scores = np.minimum(np.round(product, 6), 1.0)
        order = np.argsort(-scores, kind="stable")
        order = order[scores[order] > above]
        return [self._ids[row] for row in order.tolist()], scores[order].tolist()

    def _check_length(self, size: int) -> None:
        if size != 4 * self._vectors.shape[1]:
            raise EmbedderFailed(f"the vectors of {self._model!r} are not all of one length")


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
