"""Vectors of texts: what an embedder gives, and what is closest to it.

numpy is needed for these only, and comes with `foldlog[semantic]`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

from foldlog.errors import ConfigurationError
from foldlog.scoped.errors import EmbedderFailed
from foldlog.scoped.index import Index
from foldlog.scoped.texts import Filter, Hit, vectors_of

Embedder = Callable[[list[str]], Any]
"""Given texts, returns a vector of numbers for each, or an awaitable of that. A plain function is
called on a thread. What has a `name` is known by it: vectors of two names are never compared.
"""

_AT_ONCE: Final = 4096


def name_of(embedder: Embedder) -> str:
    """Under which name an embedder's vectors are kept."""
    named = getattr(embedder, "name", None)
    if isinstance(named, str) and named:
        return named
    return f"{embedder.__module__}.{getattr(embedder, '__qualname__', type(embedder).__qualname__)}"


async def embed(
    embedder: Embedder, texts: list[str], run: Callable[..., Awaitable[Any]]
) -> list[bytes]:
    """Return the texts' vectors, as the index keeps them; `run` calls a function on a thread.

    Raises:
        EmbedderFailed: it raised, or gave something else than one vector for each text.
        ConfigurationError: numpy is missing.
    """
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


def nearest(index: Index, model: str, query: bytes, which: Filter) -> list[Hit]:
    """Every document that has a vector of the model, best first; scores below 0 are 0.

    Raises:
        EmbedderFailed: the vectors are not all of one length.
    """
    np = numpy()
    wanted = np.frombuffer(query, dtype=np.float32)
    hits: list[Hit] = []
    for keys, saliences, vectors in _pages(index, model, which):
        if any(len(vector) != len(query) for vector in vectors):
            raise EmbedderFailed(f"the vectors of {model!r} are not all of one length")
        matrix = np.frombuffer(b"".join(vectors), dtype=np.float32).reshape(len(keys), -1)
        scores = np.clip(matrix @ wanted, 0.0, 1.0).tolist()
        hits += map(Hit, keys, scores, saliences)
    return hits


def numpy() -> Any:
    """The module.

    Raises:
        ConfigurationError: it is missing.
    """
    try:
        import numpy as np
    except ImportError:
        raise ConfigurationError("semantic search needs numpy: install foldlog[semantic]") from None
    return np


def _pages(
    index: Index, model: str, which: Filter
) -> Iterator[tuple[list[str], list[float], list[bytes]]]:
    rows = vectors_of(index, model, which)
    while page := rows.fetchmany(_AT_ONCE):
        keys, saliences, vectors = map(list, zip(*page, strict=True))
        yield keys, saliences, vectors


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
