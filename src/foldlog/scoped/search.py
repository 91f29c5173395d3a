"""Searching a scope: its index is brought up to date, then asked."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import heapq
import sqlite3
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, ParamSpec, TypeVar, get_args

from foldlog.errors import ConfigurationError, FoldlogError
from foldlog.scoped import graph, records, vectors
from foldlog.scoped.errors import SearchFailed
from foldlog.scoped.index import Document, Filter, Hit, Index, remove, wipe
from foldlog.scoped.keys import Keys
from foldlog.scoped.models import MemoryTier, SearchOptions, SearchResult
from foldlog.scoped.records import Held
from foldlog.scoped.scope import Scope
from foldlog.scoped.text import terms, text_of
from foldlog.scoped.vectors import Embedder
from foldlog.views import Consistency
from foldlog_projections.fold import Folded
from foldlog_projections.scopes import State

P = ParamSpec("P")
T = TypeVar("T")

Mode = Literal["text", "semantic", "both"]

_OPEN: Final = 32
"""Indexes open at a time."""

_FETCHED: Final = 512
_AT_ONCE: Final = 64
_EMBEDDED: Final = 256
_CANDIDATES: Final = 100
_TEXT_EMBEDDED: Final = 4000
"""Characters of a value that an embedder is given."""

_NEUTRAL: Final = 0.5


_REMADE: Final = (1, 11, 19, 26)
"""SQLite's codes for a database that is not what it should be: ERROR, CORRUPT, CONSTRAINT, NOTADB.
The extended codes, of which FTS5 has one of its own, have them in their last byte.
"""

_MOST: Final = 2**31
"""Results: more than any scope has, and within what SQLite counts."""


class Plan(NamedTuple):
    """What an index may lack: versions by key, keys that are gone, and how far it then goes.

    Of a `complete` one, whatever it does not name is to go.
    """

    changed: dict[str, str]
    gone: list[str]
    synced: tuple[int, str]
    complete: bool


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
        self._open: OrderedDict[Scope, Index] = OrderedDict()
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="foldlog-search")

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
        async with self._turn:  # there is one thread
            try:
                try:
                    return await self._search(scope, query, limit, options, mode, consistency)
                except sqlite3.DatabaseError as error:
                    if not _is_damage(error):
                        raise
                    await self._drop(scope)
                return await self._search(scope, query, limit, options, mode, consistency)
            except (sqlite3.Error, OSError) as error:
                raise SearchFailed(f"the search index cannot be kept: {error}") from error

    async def forget(self, scope: Scope | None) -> None:
        """Have the index of a scope, or of all, hold nothing, on disk neither.

        Raises:
            SearchFailed: it could not be had; forgetting again is safe.
        """
        async with self._turn:
            for each in [*self._open] if scope is None else [scope]:
                if (index := self._open.pop(each, None)) is not None:
                    await self._run(index.close)
            try:
                await self._run(self._wipe, scope)
            except (sqlite3.Error, OSError) as error:
                raise SearchFailed(f"the search index cannot be wiped: {error}") from error

    async def close(self) -> None:
        """Let go of the indexes."""
        async with self._turn:
            while self._open:
                _, index = self._open.popitem()
                await self._run(index.close)
            self._thread.shutdown(wait=False)

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
        await self._sync(scope, index, consistency)
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
        hits = await self._run(self._hits, index, words, vector, which, limit, mode)
        if options.max_depth:
            folded = await self._keys.index(scope, "eventual")
            hits = _widened(folded.state, hits, which, options.max_depth)
        least = options.min_score or 0.0
        found = (hit for hit in hits if hit.score > 0 and hit.score >= least)
        best = heapq.nsmallest(limit, found, key=_order)
        snippets = await self._run(index.snippets, words, [hit.key for hit in best])
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

    async def _sync(self, scope: Scope, index: Index, consistency: Consistency) -> None:
        """Bring an index up to date."""
        synced = await self._run(index.synced)
        plan = planned(await self._keys.index(scope, consistency), synced)
        if plan.complete and synced[0] and consistency != "strong":
            # Another process, which had heard of more, may have brought the file up to date. It is
            # not to be set back, nor every key compared.
            plan = planned(await self._keys.index(scope, "strong"), synced)
        if plan.synced == synced:
            return
        have = await self._run(index.versions, None if plan.complete else list(plan.changed))
        wanted = [key for key, version in plan.changed.items() if have.get(key) != version]
        gone = [key for key in have if key not in plan.changed] if plan.complete else plan.gone
        for start in range(0, len(wanted), _FETCHED):
            keys = wanted[start : start + _FETCHED]
            documents = await self._documents(scope, {key: plan.changed[key] for key in keys})
            found = {document.key for document in documents}
            await self._run(index.apply, documents, [key for key in keys if key not in found])
        await self._run(index.apply, (), gone, plan.synced)

    async def _documents(self, scope: Scope, versions: dict[str, str]) -> list[Document]:
        """What can be found of keys, as they are now; of those that are gone, nothing.

        `versions`: what the keys are known to be at; what a page of the log has of another version
        is asked for by itself.
        """
        documents: list[Document] = []
        left = list(versions)
        while page := await self._keys.lasts(scope, left):
            for key, held in page.items():
                if held.version == versions[key] and held.written is not None:
                    documents.append(_document(key, held, await self._keys.value(held)))
            left = [key for key in left if key not in page]
            if not left:
                break
        done = {document.key for document in documents}
        return documents + await self._asked(scope, [key for key in versions if key not in done])

    async def _asked(self, scope: Scope, keys: list[str]) -> list[Document]:
        waiting = iter(keys)
        documents: list[Document] = []

        async def fetch() -> None:
            for key in waiting:
                held, _ = await self._keys.last(scope, key)
                if held is not None and held.written is not None:
                    documents.append(_document(key, held, await self._keys.value(held)))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(_AT_ONCE, len(keys))):
                    group.create_task(fetch())
        except* FoldlogError as errors:
            raise _first(errors) from None
        return documents

    async def _vector(self, index: Index, query: str) -> bytes:
        """Give a vector to every document that has none, and to the query."""
        assert self._embedder is not None, "the mode was checked"
        after = 0
        while lacking := await self._run(index.lacking, self._model, after, _EMBEDDED):
            texts = [text[:_TEXT_EMBEDDED] for _, _, text in lacking]
            made = await vectors.embed(self._embedder, texts, self._run)
            kept = [
                (id, version, vector)
                for (id, version, _), vector in zip(lacking, made, strict=True)
            ]
            await self._run(index.put_vectors, self._model, kept)
            after = lacking[-1][0]
        [vector] = await vectors.embed(self._embedder, [query], self._run)
        return vector

    def _checked(self, mode: Mode | None) -> Mode:
        if mode is None:
            return "text" if self._embedder is None else "both"
        if mode not in get_args(Mode):
            raise ConfigurationError(f'mode is "text", "semantic" or "both", not {mode!r:.80}')
        if mode != "text" and self._embedder is None:
            raise ConfigurationError(f"mode {mode!r} needs an embedder: see with_search")
        return mode

    async def _index(self, scope: Scope) -> Index:
        index = self._open.get(scope)
        if index is None:
            index = await self._run(Index, self._path(scope))
            self._open[scope] = index
            if len(self._open) > _OPEN:
                _, least = self._open.popitem(last=False)
                await self._run(least.close)
        self._open.move_to_end(scope)
        return index

    async def _drop(self, scope: Scope) -> None:
        index, path = self._open.pop(scope, None), self._path(scope)
        if index is not None:
            await self._run(index.close)
        if path is not None:
            await self._run(remove, path)

    def _wipe(self, scope: Scope | None) -> None:
        """On the thread: what there is on disk, whether or not this process has opened it."""
        if self._place is None:
            return
        path = None if scope is None else self._path(scope)
        for each in self._place.glob("*.db") if path is None else [path]:
            try:
                if each.exists():
                    wipe(each)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                remove(each)

    def _path(self, scope: Scope) -> Path | None:
        if self._place is None:
            return None
        name = hashlib.blake2b(scope.subject_key.encode(), digest_size=16).hexdigest()
        return self._place / f"{name}.db"

    async def _run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        call = functools.partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


def planned(folded: Folded[State], synced: tuple[int, str]) -> Plan:
    """What an index lacks that goes as far as `synced`; all, if that is not of this log. Pure."""
    state = folded.state
    count, version = synced
    goes_to = (state.count, next(reversed(folded.seen), ""))
    if folded.seen.get(version) != count - 1:
        versions = {key: entry.version for key, entry in state.entries.items()}
        return Plan(versions, [], goes_to, complete=True)
    changed = takewhile(lambda item: item[1].ordinal >= count, reversed(state.entries.items()))
    gone = takewhile(lambda item: item[1] >= count, reversed(state.gone.items()))
    return Plan(
        {key: entry.version for key, entry in changed},
        [key for key, _ in gone],
        goes_to,
        complete=False,
    )


def _document(key: str, held: Held, value: Any) -> Document:
    written = held.written
    assert written is not None, "what was deleted cannot be found"
    ends = held.envelope.recorded_at + written.ttl / 1000 if written.ttl >= 0 else 0.0
    return Document(
        key,
        held.version,
        text_of(value),
        written.tier or MemoryTier.HOT,
        written.content_kind,
        _NEUTRAL if written.salience is None else written.salience,
        ends,
    )


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
            salience = _NEUTRAL if entry.salience is None else entry.salience
            found.append(Hit(key, score, salience))
    return found


def _order(hit: Hit) -> tuple[float, float, str]:
    """Best first: the higher score, then the more salient, then by key."""
    return -hit.score, -hit.salience, hit.key


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 1) & 0xFF in _REMADE


def _first(errors: BaseExceptionGroup[FoldlogError]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
