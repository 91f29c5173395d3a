"""Reading scoped state. The names, order and meaning of arguments are layer0's StateReader's."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any, Final, NamedTuple

from foldlog import codec
from foldlog.errors import PayloadError
from foldlog.scoped import graph, records
from foldlog.scoped.cache import Transient
from foldlog.scoped.filling import OnProgress
from foldlog.scoped.index import Entry, Index
from foldlog.scoped.keys import Keys, Moment
from foldlog.scoped.models import (
    Lifetime,
    MemoryLink,
    MemoryTier,
    Revision,
    SearchOptions,
    SearchResult,
    StoreOptions,
    checked_options,
    checked_search,
)
from foldlog.scoped.scope import Scope, checked_scope
from foldlog.scoped.search import Mode, Search
from foldlog.scoped.watching import watch
from foldlog.store.operation import Calls, operation
from foldlog.subjects import checked_id
from foldlog.views import Consistency
from foldlog_projections.scoped import Written

Names = list[str]
Links = list[MemoryLink]
Results = list[SearchResult]
Revisions = list[Revision]
"""What comes back: within the class `list` is a method."""

_HISTORY: Final = 100

DIRECT_READS: Final = 32
"""Reads of a scope that ask the keys themselves, before its index is opened."""

_BY_LEADER: Final = ("strong", "session", "eventual")
"""What a look at the log's leader promises at least."""

_SCOPES_REMEMBERED: Final = 10_000


class Found(NamedTuple):
    """What a key holds: the encoded value, and the hints with which it was written."""

    payload: bytes
    hints: Entry | Written


_operation: Final = functools.partial(operation, prefix="scoped.")


class ScopedReader:
    """Reads scopes, and cannot change what is stored; made by `store.scoped.reader`."""

    def __init__(self, keys: Keys, transient: Transient, search: Search) -> None:
        self._calls: Calls = keys.core.calls
        self._keys = keys
        self._transient = transient
        self._search = search
        self._indexes = search.indexes
        self._reads: Counter[Scope] = Counter()

    @_operation()
    async def read(
        self,
        scope: Scope,
        key: str,
        *,
        at: Moment | None = None,
        consistency: Consistency = "session",
    ) -> Any | None:
        """Return the value of a key, a new object, or None if there is none.

        Args:
            scope: the scope.
            key: the key.
            at: as of then: a position, of `history`, `watch` or `store.position()`, or a datetime
                with a time zone, by the log's clock. What had expired by then is None.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            UnknownMoment, PastErased: there is no such moment, or the value was removed since.
            PayloadError: an argument is of the wrong type.
        """
        if at is not None:
            held = await self._keys.as_of(scope, key, at)
            if held is None or held.written is None:
                return None
            return records.decoded(await self._keys.payload(scope, key, held), held)
        found = await self._lookup(scope, key, consistency)
        return None if found is None else codec.decode(found.payload)

    @_operation()
    async def read_hinted(self, scope: Scope, key: str, options: StoreOptions) -> Any | None:
        """Return the value of a key, transient or stored, or None.

        Args:
            scope: the scope.
            key: the key.
            options: hints of the read: only a value of this lifetime and kind.

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            PayloadError: an argument is of the wrong type.
        """
        options = checked_options(options)
        checked_id(key, "key")
        scratch = self._transient.get(checked_scope(scope), key)
        if scratch is not None:
            payload, written = scratch
            has = (Lifetime.TRANSIENT, written.content_kind)
            return codec.decode(payload) if _fits(options, *has) else None
        if options.lifetime is Lifetime.TRANSIENT:
            return None
        keep = options.tier is not MemoryTier.COLD
        found = await self._lookup(scope, key, "session", keep=keep)
        if found is None:
            return None
        lifetime = Lifetime(found.hints.lifetime or Lifetime.DURABLE)
        kind = records.kind_of(found.hints.content_kind)
        return codec.decode(found.payload) if _fits(options, lifetime, kind) else None

    @_operation()
    async def entry(self, scope: Scope, key: str) -> Revision | None:
        """Return the value of a key with its version, hints and time, or None. It asks the log.

        Args:
            scope: the scope.
            key: the key.

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            PayloadError: an argument is of the wrong type.
        """
        held, payload = await self._keys.present(scope, key)
        return None if held is None else await self._keys.revision(scope, key, held, payload)

    @_operation()
    async def list(
        self, scope: Scope, prefix: str = "", *, consistency: Consistency = "session"
    ) -> Names:
        """Return the keys that begin with a prefix, sorted by code points. It loads no values.

        Args:
            scope: the scope.
            prefix: how the keys begin.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            SearchFailed: the scope's index cannot be stored on this machine.
        """
        prefix = _text(prefix, "prefix")
        found = self._indexes.recall(scope, consistency, lambda known, now: known.keys(now, prefix))
        if found is not None:
            return found
        return await self._indexes.ask(scope, consistency, Index.keys, prefix)

    @_operation()
    async def search(self, scope: Scope, query: str, limit: int) -> Results:
        """Return the keys whose value or name has words of a query, best first.

        Args:
            scope: the scope.
            query: words.
            limit: how many at most.

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            PayloadError: an argument is of the wrong type.
            SearchFailed: the scope's index cannot be stored on this machine.
            EmbedderFailed: the embedder raised.
        """
        return await self.search_hinted(scope, query, limit, SearchOptions())

    @_operation()
    async def search_hinted(
        self,
        scope: Scope,
        query: str,
        limit: int,
        options: SearchOptions,
        *,
        mode: Mode | None = None,
        consistency: Consistency = "session",
        on_progress: OnProgress | None = None,
    ) -> Results:
        """Return the keys that answer a query, best first.

        Among equal scores the more salient come first, then by key. The first search of a scope on
        a machine reads the scope's values; later ones what has changed.

        Args:
            scope: the scope.
            query: words, or a question.
            limit: how many at most.
            options: what is to be found: a least score, a kind, a tier, and how far along links.
            mode: "text", "semantic" or "both"; by default both where there is an embedder.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).
            on_progress: called with how many values are in the index, and of how many.

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            PayloadError: an argument is of the wrong type.
            ConfigurationError: the mode needs an embedder, or that needs a package.
            EmbedderFailed: the embedder raised, or gave no vectors.
            SearchFailed: the scope's index cannot be stored on this machine.
        """
        checked_scope(scope)
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise PayloadError("limit", f"{limit!r:.80} is not a number")
        query, options = _text(query, "query"), checked_search(options)
        asked = query, limit, options, mode, consistency, on_progress
        return await self._search.search(scope, *asked)

    @_operation()
    async def traverse(
        self,
        scope: Scope,
        from_key: str,
        relation: str | None,
        max_depth: int,
        *,
        consistency: Consistency = "session",
    ) -> Names:
        """Return the keys that links lead to from another key, nearest first.

        Those as near as each other come in the order in which their links were made.

        Args:
            scope: the scope.
            from_key: where to begin.
            relation: only along such links; None along any.
            max_depth: how many steps at most.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            SearchFailed: the scope's index cannot be stored on this machine.
        """
        if isinstance(max_depth, bool) or not isinstance(max_depth, int) or max_depth < 0:
            raise PayloadError("max_depth", f"{max_depth!r:.80} is no number of steps")
        checked_id(from_key, "from_key")

        def walked(index: Index, now: float) -> list[str]:
            return [*graph.reach(partial(index.edges, now), from_key, relation, max_depth)]

        return await self._indexes.ask(scope, consistency, walked)

    @_operation()
    async def links(
        self, scope: Scope, from_key: str, *, consistency: Consistency = "session"
    ) -> Links:
        """Return the links from a key, in the order in which they were made.

        Args:
            scope: the scope.
            from_key: the key.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            SearchFailed: the scope's index cannot be stored on this machine.
        """
        checked_id(from_key, "from_key")
        found = await self._indexes.ask(scope, consistency, Index.edges, from_key)
        return [
            MemoryLink(from_key, to_key, relation, codec.decode(metadata))
            for to_key, relation, metadata in found
        ]

    @_operation()
    async def history(self, scope: Scope, key: str, *, limit: int = _HISTORY) -> Revisions:
        """Return the last writes and deletions of a key, oldest first.

        What has expired, or was deleted or overwritten, is here all the same.

        Args:
            scope: the scope.
            key: the key.
            limit: how many at most.

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            PayloadError: an argument is of the wrong type.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise PayloadError("limit", f"{limit!r:.80} is no number of revisions")
        found = await self._keys.history(scope, key)
        latest = found[max(len(found) - limit, 0) :]
        return [await self._keys.revision(scope, key, held) for held in latest]

    def watch(
        self, scope: Scope, prefix: str = "", *, since: str | None = None
    ) -> AsyncGenerator[Revision]:
        """Yield what keys hold, in the order of their last writes, then each write and deletion.

        It waits out an outage, and never ends by itself: use `contextlib.aclosing`. It does not say
        that a key has expired: its `options.ttl` and `recorded_at` tell when.

        Args:
            scope: the scope.
            prefix: only keys that begin with this.
            since: a version: only what was recorded after it. None, or an unknown one: all.

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            SearchFailed: the scope's index cannot be stored on this machine.
        """
        checked = checked_scope(scope), _text(prefix, "prefix"), since
        return watch(self._keys, self._indexes, *checked)

    def clear_transient(self) -> None:
        """Drop every transient value, of all scopes. Raises nothing."""
        self._transient.clear()

    async def _lookup(
        self, scope: Scope, key: str, consistency: Consistency, *, keep: bool = True
    ) -> Found | None:
        """Return what a key holds, or None; with `keep`, its value may stay in memory.

        Where the scope's index is open, it says whether the value in memory is the present one.
        Else the key itself is asked, which costs the same however many keys there are; who reads
        more than a few gets the index opened. Errors as `Keys.value`.
        """
        subject = self._keys.subject(scope, key)
        entry = self._indexes.recall(scope, consistency, lambda known, now: known.entry(now, key))
        if entry is not None:
            payload = self._keys.cache.get(subject, entry.version)
            if payload is not None:
                return Found(payload, entry)
        is_direct = consistency in _BY_LEADER and self._reads[scope] < DIRECT_READS
        if self._indexes.is_open(scope) or not is_direct:
            self._reads.pop(scope, None)
            entry = await self._indexes.ask(scope, consistency, Index.entry, key)
            if entry is None:
                return None
            payload = self._keys.cache.get(subject, entry.version)
            if payload is not None:
                return Found(payload, entry)
        else:
            if len(self._reads) > _SCOPES_REMEMBERED:
                self._reads.clear()
            self._reads[scope] += 1
        held, payload = await self._keys.present(scope, key)
        if held is None or held.written is None:
            return None
        written = held.written
        if keep:
            kept = payload, written.tier, written.salience
            self._keys.cache.put(subject, held.version, *kept)
        return Found(payload, written)


def _fits(options: StoreOptions, lifetime: Lifetime, kind: object) -> bool:
    if options.lifetime not in (None, lifetime):
        return False
    return options.content_kind is None or options.content_kind == kind


def _text(value: str, field: str) -> str:
    if not isinstance(value, str):
        raise PayloadError(field, f"{value!r:.80} is not a string")
    return value
