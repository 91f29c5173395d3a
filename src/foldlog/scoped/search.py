"""Searching a scope: values get their vectors, and its index is asked."""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal, get_args

from foldlog.errors import Misuse
from foldlog.scoped import graph, records, vectors
from foldlog.scoped.documents import MOST, Filter, Hit, Lacking
from foldlog.scoped.index import Index
from foldlog.scoped.indexes import Indexes
from foldlog.scoped.keys import Keys
from foldlog.scoped.models import SearchOptions, SearchResult
from foldlog.scoped.scope import Scope
from foldlog.scoped.text import terms
from foldlog.scoped.vectors import Embedder
from foldlog.views import Consistency
from foldlog_projections.scoped.scoped import Embedded

Mode = Literal["text", "semantic", "both"]

_EMBEDDED: Final = 256
_CANDIDATES: Final = 100
_TEXT_EMBEDDED: Final = 4000
"""Characters of a value that an embedder is given."""


class Search:
    """Searches of a store's scopes. Lives as long as its store.

    Args:
        embedder: what makes vectors of texts; None for searches by text only.
    """

    def __init__(self, keys: Keys, indexes: Indexes, embedder: Embedder | None = None) -> None:
        self.indexes = indexes
        self._keys = keys
        self._embedder = embedder
        self._model = "" if embedder is None else vectors.name_of(embedder)
        # Nobody says that an embedder may be called twice at a time. A call that was given up goes
        # on in its thread; the next one comes after it.
        self._embedding, self._in_thread = asyncio.Lock(), threading.Lock()

    async def search(
        self,
        scope: Scope,
        query: str,
        limit: int,
        options: SearchOptions,
        mode: Mode | None,
        consistency: Consistency,
    ) -> list[SearchResult]:
        """See `ScopedReader.search`."""
        mode, vector = self._checked(mode), b""
        if mode != "text":
            async with self.indexes.turn(scope, "vectors"):
                await self._embed_values(scope, consistency)
            [vector] = await self._embedded([query])
        asked = terms(query), vector, min(max(limit, 0), MOST), options, mode
        return await self.indexes.ask(
            scope, consistency, lambda index, now: self._found(index, now, *asked), searches=True
        )

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
            hits = index.matching(words, which, limit)
        else:
            most = limit if mode == "semantic" else max(limit * 4, _CANDIDATES)
            hits = index.nearest(self._model, vector, which, most)
            if mode == "both":
                hits = _blended(index.matching(words, which, most), hits)
            hits = heapq.nsmallest(limit, hits, key=_order)
        if options.max_depth:
            scores = {hit.key: hit.score for hit in hits}
            linked = graph.widened(partial(index.edges, now), scores, options.max_depth)
            hits += index.chosen(linked, which)
        least = options.min_score or 0.0
        best = heapq.nsmallest(
            limit, (hit for hit in hits if hit.score > 0 and hit.score >= least), key=_order
        )
        snippets = index.snippets(words, [hit.key for hit in best])
        return [SearchResult(hit.key, hit.score, snippets.get(hit.key)) for hit in best]

    async def _embed_values(self, scope: Scope, consistency: Consistency) -> None:
        """Give a vector to every value that has none: on the log, for all, and in the index."""

        def lacking(index: Index, now: float) -> list[Lacking]:
            return index.lacking(self._model, _EMBEDDED)

        while some := await self.indexes.ask(scope, consistency, lacking, searches=True):
            made = await self._embedded([each.text[:_TEXT_EMBEDDED] for each in some])
            await self._save(scope, some, made)

    async def _save(self, scope: Scope, some: list[Lacking], made: list[bytes]) -> None:
        """Have vectors on the log and in the index."""
        found = list(zip(some, made, strict=True))
        if not self._keys.core.reads_only:
            await self._keys.add_vectors(
                scope, [(s.key, s.seq, Embedded(s.version, self._model, v)) for s, v in found]
            )

        def put(index: Index, now: float) -> None:
            kept = [(each.key, each.version, [vector]) for each, vector in found]
            index.put_vectors(self._model, kept)

        await self.indexes.ask(scope, "eventual", put, searches=True, within="IMMEDIATE")

    async def _embedded(self, given: list[str]) -> list[bytes]:
        assert self._embedder is not None, "the mode was checked"

        async def run(function: Callable[[list[str]], Any], given: list[str]) -> Any:
            def alone() -> Any:
                with self._in_thread:
                    return function(given)

            return await asyncio.to_thread(alone)

        async with self._embedding:
            return await vectors.embed(self._embedder, given, run)

    def _checked(self, mode: Mode | None) -> Mode:
        if mode is None:
            return "text" if self._embedder is None else "both"
        if mode not in get_args(Mode):
            raise Misuse(f'mode is "text", "semantic" or "both", not {mode!r:.80}')
        if mode != "text" and self._embedder is None:
            raise Misuse(f"mode {mode!r} needs an embedder: see with_search")
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
