"""Searching a scope: its index is brought up to date, then asked."""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import sqlite3
from collections import OrderedDict
from pathlib import Path
from typing import Final, Literal, get_args
from weakref import WeakValueDictionary

from foldlog.errors import ConfigurationError, StoreClosed
from foldlog.scoped import graph, records, vectors
from foldlog.scoped.errors import SearchFailed
from foldlog.scoped.index import Filter, Hit, Index, remove, wipe
from foldlog.scoped.keys import Keys
from foldlog.scoped.models import NEUTRAL, MemoryTier, SearchOptions, SearchResult
from foldlog.scoped.scope import Scope
from foldlog.scoped.syncing import Syncing
from foldlog.scoped.text import terms
from foldlog.scoped.threads import Threads
from foldlog.scoped.vectors import Embedder
from foldlog.views import Consistency
from foldlog_projections.scopes import State

Mode = Literal["text", "semantic", "both"]

_OPEN: Final = 32
"""Indexes open at a time, beside those that are being searched."""

_EMBEDDED: Final = 256
_CANDIDATES: Final = 100
_TEXT_EMBEDDED: Final = 4000
"""Characters of a value that an embedder is given."""

_REMADE: Final = (1, 11, 19, 26)
"""SQLite's codes for a database that is not what it should be: ERROR, CORRUPT, CONSTRAINT, NOTADB.
The extended codes, of which FTS5 has one of its own, have them in their last byte.
"""

_MOST: Final = 2**31
"""Results: more than any scope has, and within what SQLite counts."""


class Search:
    """The search indexes of a store's scopes. Lives as long as its store.

    Args:
        place: the directory for index files; None keeps them in memory.
        embedder: what makes vectors of texts; None for searches by text only.
    """

    def __init__(self, keys: Keys, place: Path | None, embedder: Embedder | None = None) -> None:
        self._keys = keys
        self._place = place
        self._embedder = embedder
        self._threads = Threads()
        self._syncing = Syncing(keys, self._threads)
        self._open: OrderedDict[Scope, Index] = OrderedDict()
        # Nobody says that an embedder may be called twice at a time.
        self._embedding = asyncio.Lock()
        # A lock is there as long as somebody holds it or waits for it.
        self._turns: WeakValueDictionary[Scope, asyncio.Lock] = WeakValueDictionary()
        self._closed = False

    async def search(
        self,
        scope: Scope,
        query: str,
        limit: int,
        options: SearchOptions,
        mode: Mode | None,
        consistency: Consistency,
    ) -> list[SearchResult]:
        """See `ScopedReader.search_hinted`."""
        mode = self._checked(mode)
        asked = query, limit, options, mode, consistency
        try:
            async with self._turn(scope):
                try:
                    found = await self._search(scope, *asked)
                except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                    if not _is_damage(error):
                        raise
                    await self._drop(scope)
                    found = await self._search(scope, *asked)
            await self._make_room()
        except (sqlite3.Error, OSError) as error:
            raise SearchFailed(f"the search index cannot be kept: {error}") from error
        return found

    async def forget(self, scope: Scope | None) -> None:
        """Have the index of a scope, or of all, hold nothing, on disk neither.

        Raises:
            SearchFailed: it could not be had; forgetting again is safe.
        """
        if scope is None:
            await self._close_all()
            await self._wiped(None)
            return
        async with self._turn(scope):
            await self._close(scope)
            await self._wiped(scope)

    async def close(self) -> None:
        """Let go of the indexes. Searches that have begun end first; others are StoreClosed."""
        self._closed = True
        try:
            await self._close_all()
        finally:
            self._threads.close()

    async def _search(
        self,
        scope: Scope,
        query: str,
        limit: int,
        options: SearchOptions,
        mode: Mode,
        consistency: Consistency,
    ) -> list[SearchResult]:
        index = await self._index(scope)
        await self._syncing.sync(scope, index, consistency)
        vector = b"" if mode == "text" else await self._vector(index, query)
        if limit <= 0:
            return []
        words = terms(query)
        which = Filter(
            self._keys.journal.now(),
            None if options.tier is None else str(options.tier),
            None if options.content_kind is None else records.kind_text(options.content_kind),
        )
        limit = min(limit, _MOST)
        hits = await self._threads.on(index, self._hits, index, words, vector, which, limit, mode)
        if options.max_depth:
            folded = await self._keys.index(scope, "eventual")
            hits = _widened(folded.state, hits, which, options.max_depth)
        least = options.min_score or 0.0
        found = (hit for hit in hits if hit.score > 0 and hit.score >= least)
        best = heapq.nsmallest(limit, found, key=_order)
        shown = [hit.key for hit in best]
        snippets = await self._threads.on(index, index.snippets, words, shown)
        return [SearchResult(hit.key, hit.score, snippets.get(hit.key)) for hit in best]

    def _hits(
        self, index: Index, words: list[str], vector: bytes, which: Filter, limit: int, mode: Mode
    ) -> list[Hit]:
        """On the thread: what matches best, `limit` of it."""
        if mode == "text":
            return index.matching(words, which, limit)
        near = vectors.nearest(index, self._model, vector, which)
        if mode == "both":
            near = _blended(index.matching(words, which, max(limit * 4, _CANDIDATES)), near)
        return heapq.nsmallest(limit, near, key=_order)

    @property
    def _model(self) -> str:
        assert self._embedder is not None, "the mode was checked"
        return vectors.name_of(self._embedder)

    async def _vector(self, index: Index, query: str) -> bytes:
        """Give a vector to every document that has none, and to the query."""
        after = 0
        while lacking := await self._threads.on(
            index, index.lacking, self._model, after, _EMBEDDED
        ):
            made = await self._embedded([text[:_TEXT_EMBEDDED] for _, _, text in lacking])
            kept = [
                (id, version, vector)
                for (id, version, _), vector in zip(lacking, made, strict=True)
            ]
            await self._threads.on(index, index.put_vectors, self._model, kept)
            after = lacking[-1][0]
        [vector] = await self._embedded([query])
        return vector

    async def _embedded(self, texts: list[str]) -> list[bytes]:
        assert self._embedder is not None, "the mode was checked"
        async with self._embedding:
            return await vectors.embed(self._embedder, texts, self._threads.embed)

    def _checked(self, mode: Mode | None) -> Mode:
        if mode is None:
            return "text" if self._embedder is None else "both"
        if mode not in get_args(Mode):
            raise ConfigurationError(f'mode is "text", "semantic" or "both", not {mode!r:.80}')
        if mode != "text" and self._embedder is None:
            raise ConfigurationError(f"mode {mode!r} needs an embedder: see with_search")
        return mode

    def _turn(self, scope: Scope) -> asyncio.Lock:
        """What whoever works on a scope's index holds. Keep it while waiting for it."""
        return self._turns.setdefault(scope, asyncio.Lock())

    async def _index(self, scope: Scope) -> Index:
        if self._closed:
            raise StoreClosed
        index = self._open.get(scope)
        if index is None:
            index = await self._threads.run(Index, self._path(scope))
            self._open[scope] = index
        self._open.move_to_end(scope)
        return index

    async def _make_room(self) -> None:
        """Close those that were searched least recently, but none that is being searched."""
        while len(self._open) > _OPEN:
            idle = next((each for each in self._open if each not in self._turns), None)
            if idle is None:
                return
            await self._close(idle)

    async def _close(self, scope: Scope) -> None:
        """Let go of a scope's index, if it is open."""
        if (index := self._open.pop(scope, None)) is not None:
            await self._threads.on(index, index.close)

    async def _close_all(self) -> None:
        """Let go of every index, when those who work on it are done."""
        for scope in {*self._open, *self._turns}:
            async with self._turn(scope):
                await self._close(scope)

    async def _drop(self, scope: Scope) -> None:
        path = self._path(scope)
        await self._close(scope)
        if path is not None:
            await self._threads.run(remove, path)

    async def _wiped(self, scope: Scope | None) -> None:
        if self._closed:
            raise StoreClosed
        try:
            await self._threads.run(self._wipe, scope)
        except (sqlite3.Error, OSError) as error:
            raise SearchFailed(f"the search index cannot be wiped: {error}") from error

    def _wipe(self, scope: Scope | None) -> None:
        """On the thread: what there is on disk, whether or not this process has opened it."""
        if self._place is None:
            return
        path = None if scope is None else self._path(scope)
        for each in self._place.glob("*.db") if path is None else [path]:
            try:
                if each.exists():
                    wipe(each)
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                if not _is_damage(error):
                    raise
                remove(each)

    def _path(self, scope: Scope) -> Path | None:
        if self._place is None:
            return None
        name = hashlib.blake2b(scope.subject_key.encode(), digest_size=16).hexdigest()
        return self._place / f"{name}.db"


def _blended(text: list[Hit], near: list[Hit]) -> list[Hit]:
    """Every document with the better of its two scores.

    A mean would let words that a question has by chance push away what it means; the table in
    docs/scoped.md is of this rule.
    """
    scores = {hit.key: hit.score for hit in text}
    return [hit._replace(score=max(hit.score, scores.get(hit.key, 0.0))) for hit in near]


def _widened(state: State, hits: list[Hit], which: Filter, max_depth: int) -> list[Hit]:
    scores = {hit.key: hit.score for hit in hits}
    found = list(hits)
    for key, score in graph.widened(state, scores, max_depth, which.now).items():
        entry = state.entries[key]
        if which.tier in (None, entry.tier or MemoryTier.HOT) and which.kind in (
            None,
            entry.content_kind,
        ):
            salience = NEUTRAL if entry.salience is None else entry.salience
            found.append(Hit(key, score, salience))
    return found


def _order(hit: Hit) -> tuple[float, float, str]:
    """Best first: the higher score, then the more salient, then by key."""
    return -hit.score, -hit.salience, hit.key


def _is_damage(error: Exception) -> bool:
    # What SQLite says of a damaged schema quotes it, and may be no text at all.
    return getattr(error, "sqlite_errorcode", 1) & 0xFF in _REMADE
