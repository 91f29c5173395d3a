"""Searching a scope: its index is brought up to date and filled, then asked."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Literal, get_args

from foldlog.errors import ConfigurationError
from foldlog.scoped import graph, records, texts, vectors
from foldlog.scoped.filling import OnProgress, fill
from foldlog.scoped.index import Index
from foldlog.scoped.indexes import Indexes, on, seen_at_once
from foldlog.scoped.keys import Keys
from foldlog.scoped.models import SearchOptions, SearchResult
from foldlog.scoped.scope import Scope
from foldlog.scoped.text import terms
from foldlog.scoped.texts import Filter, Hit
from foldlog.scoped.vectors import Embedder
from foldlog.views import Consistency

Mode = Literal["text", "semantic", "both"]

_EMBEDDED: Final = 256
_CANDIDATES: Final = 100
_TEXT_EMBEDDED: Final = 4000
"""Characters of a value that an embedder is given."""

_FILLED: Final = 2
"""Times that an index is filled before it is asked: what it lacks then was written meanwhile."""

_MOST: Final = 2**31
"""Results: more than any scope has, and within what SQLite counts."""


class Search:
    """Searches of a store's scopes. Lives as long as its store.

    Args:
        embedder: what makes vectors of texts; None for searches by text only.
    """

    def __init__(self, keys: Keys, indexes: Indexes, embedder: Embedder | None = None) -> None:
        self.indexes = indexes
        self._keys = keys
        self._embedder = embedder
        # Nobody says that an embedder may be called twice at a time. A call that was given up goes
        # on; the next one comes after it.
        self._embedding = asyncio.Lock()
        self._embedders = ThreadPoolExecutor(1, thread_name_prefix="foldlog-embedder")

    async def search(
        self,
        scope: Scope,
        query: str,
        limit: int,
        options: SearchOptions,
        mode: Mode | None,
        consistency: Consistency,
        on_progress: OnProgress | None,
    ) -> list[SearchResult]:
        """See `ScopedReader.search_hinted`."""
        mode = self._checked(mode)

        async def searched() -> list[SearchResult]:
            async with self.indexes.turn(scope, "search"):
                index = await self._filled(scope, consistency, on_progress)
                vector = b"" if mode == "text" else await self._vector(index, query)
                if limit <= 0:
                    return []
                asked = terms(query), vector, min(limit, _MOST), options, mode
                now = self._keys.core.now()
                return await on(index, seen_at_once(self._found), now, *asked)

        return await self.indexes.mended(scope, searched)

    async def close(self) -> None:
        """Let go of the indexes. Searches that have begun end first; others are StoreClosed."""
        try:
            await self.indexes.close()
        finally:
            self._embedders.shutdown(wait=False)

    async def _filled(
        self, scope: Scope, consistency: Consistency, on_progress: OnProgress | None
    ) -> Index:
        for _ in range(_FILLED):
            async with self.indexes.turn(scope):
                index = await self.indexes.current(scope, consistency, is_kept=True)
            if not await fill(self._keys, scope, index, on_progress):
                break
            consistency = "strong"
        return index

    def _found(
        self,
        index: Index,
        now: float,
        words: list[str],
        vector: bytes,
        limit: int,
        options: SearchOptions,
        mode: Mode,
    ) -> list[SearchResult]:
        """On a thread: what matches best, `limit` of it."""
        which = Filter(
            now,
            None if options.tier is None else str(options.tier),
            None if options.content_kind is None else records.kind_text(options.content_kind),
        )
        if mode == "text":
            hits = texts.matching(index, words, which, limit)
        else:
            most = limit if mode == "semantic" else max(limit * 4, _CANDIDATES)
            hits = vectors.nearest(index, self._model, vector, which, most)
            if mode == "both":
                hits = _blended(texts.matching(index, words, which, most), hits)
            hits = heapq.nsmallest(limit, hits, key=_order)
        if options.max_depth:
            scores = {hit.key: hit.score for hit in hits}
            linked = graph.widened(partial(index.edges, now), scores, options.max_depth)
            hits += texts.chosen(index, linked, which)
        least = options.min_score or 0.0
        best = heapq.nsmallest(
            limit, (hit for hit in hits if hit.score > 0 and hit.score >= least), key=_order
        )
        snippets = texts.snippets(index, words, [hit.key for hit in best])
        return [SearchResult(hit.key, hit.score, snippets.get(hit.key)) for hit in best]

    @property
    def _model(self) -> str:
        assert self._embedder is not None, "the mode was checked"
        return vectors.name_of(self._embedder)

    async def _vector(self, index: Index, query: str) -> bytes:
        """Give a vector to every document that has none, and to the query."""
        after = 0
        while lacking := await on(index, texts.lacking, self._model, after, _EMBEDDED):
            made = await self._embedded([text[:_TEXT_EMBEDDED] for _, _, text in lacking])
            kept = [
                (id, version, vector)
                for (id, version, _), vector in zip(lacking, made, strict=True)
            ]
            await on(index, texts.put_vectors, self._model, kept)
            after = lacking[-1][0]
        [vector] = await self._embedded([query])
        return vector

    async def _embedded(self, given: list[str]) -> list[bytes]:
        assert self._embedder is not None, "the mode was checked"

        async def run(function: Callable[[list[str]], Any], given: list[str]) -> Any:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._embedders, function, given)

        async with self._embedding:
            return await vectors.embed(self._embedder, given, run)

    def _checked(self, mode: Mode | None) -> Mode:
        if mode is None:
            return "text" if self._embedder is None else "both"
        if mode not in get_args(Mode):
            raise ConfigurationError(f'mode is "text", "semantic" or "both", not {mode!r:.80}')
        if mode != "text" and self._embedder is None:
            raise ConfigurationError(f"mode {mode!r} needs an embedder: see with_search")
        return mode


def _blended(text: list[Hit], near: list[Hit]) -> list[Hit]:
    """Every document with the better of its two scores.

    A mean would let words that a question has by chance push away what it means; the table in
    docs/guides/scoped.md is of this rule.
    """
    best = {hit.key: hit for hit in near}
    for hit in text:
        # One that is not near has no better score there: the nearest would come before it.
        if hit.key not in best or hit.score > best[hit.key].score:
            best[hit.key] = hit
    return list(best.values())


def _order(hit: Hit) -> tuple[float, float, str]:
    """Best first: the higher score, then the more salient, then by key."""
    return -hit.score, -hit.salience, hit.key
