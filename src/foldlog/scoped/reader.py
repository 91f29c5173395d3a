"""Reading scoped state. The names, order and meaning of arguments are layer0's StateReader's."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any, Final

from foldlog import codec
from foldlog.errors import Misuse, PayloadError
from foldlog.scoped import graph, records
from foldlog.scoped.index import Index
from foldlog.scoped.keys import Keys, Moment
from foldlog.scoped.models import (
    Lifetime,
    MemoryLink,
    Revision,
    SearchOptions,
    SearchResult,
    StoreOptions,
    checked_options,
    checked_search,
)
from foldlog.scoped.scope import Scope, checked_scope
from foldlog.scoped.search import Mode, Search
from foldlog.scoped.transient import Transient
from foldlog.scoped.watching import watch
from foldlog.store.operation import Calls, operation
from foldlog.subjects import checked_id
from foldlog.views import Consistency

Names = list[str]
Links = list[MemoryLink]
Results = list[SearchResult]
Revisions = list[Revision]
"""What comes back: within the class `list` is a method."""

_HISTORY: Final = 100

_operation: Final = functools.partial(operation, prefix="scoped.")


class ScopedReader:
    """Reads scopes, and cannot change what is stored; made by `store.scoped.reader`."""

    def __init__(self, keys: Keys, transient: Transient, search: Search) -> None:
        self._calls: Calls = keys.core.calls
        self._keys = keys
        self._transient = transient
        self._search = search
        self._indexes = search.indexes

    @_operation()
    async def read(
        self,
        scope: Scope,
        key: str,
        options: StoreOptions | None = None,
        *,
        at: Moment | None = None,
        consistency: Consistency = "session",
    ) -> Any | None:
        """Return the value of a key, a new object, or None if there is none.

        Args:
            scope: the scope.
            key: the key.
            options: hints of the read: a value of this lifetime and kind, or a transient one. None:
                whatever is stored.
            at: as of then: a position, of `history`, `watch` or `store.position()`, or a datetime
                with a time zone, by the log's clock. What had expired by then is None. Not beside
                options.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            UnknownMoment, PastErased: there is no such moment, or the value was removed since.
            PayloadError: an argument is of the wrong type.
            Misuse: `at` and `options`.
        """
        if at is not None:
            if options is not None:
                raise Misuse("at= and options: the past has no transient values")
            held = await self._keys.as_of(scope, key, at)
            if held is None or held.written is None:
                return None
            return records.decoded(await self._keys.payload(scope, key, held), held.envelope)
        if options is not None:
            options = checked_options(options)
            checked_id(key, "key")
            scratch = self._transient.get(checked_scope(scope), key)
            if scratch is not None:
                payload, written = scratch
                fits = _fits(options, Lifetime.TRANSIENT, written.content_kind)
                return codec.decode(payload) if fits else None
            if options.lifetime is Lifetime.TRANSIENT:
                return None
        held, payload = await self._keys.present(scope, key, consistency)
        if held is None or held.written is None:
            return None
        if options is not None:
            lifetime = Lifetime(held.written.lifetime or Lifetime.DURABLE)
            if not _fits(options, lifetime, records.kind_of(held.written.content_kind)):
                return None
        return records.decoded(payload, held.envelope)

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
        return await self._indexes.ask(
            scope, consistency, lambda index, now: index.keys(now, prefix)
        )

    @_operation()
    async def search(
        self,
        scope: Scope,
        query: str,
        limit: int,
        options: SearchOptions | None = None,
        *,
        mode: Mode | None = None,
        consistency: Consistency = "session",
    ) -> Results:
        """Return the keys that answer a query, best first.

        Among equal scores the more salient come first, then by key. The first search of a scope on
        a machine reads the scope's values; later ones what has changed. The first one with an
        embedder has it make the values' vectors, which are saved for all.

        Args:
            scope: the scope.
            query: words, or a question.
            limit: how many at most.
            options: what is to be found: a least score, a kind, a tier, and how far along links.
                None: everything.
            mode: "text", "semantic" or "both"; by default both where there is an embedder.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            PayloadError: an argument is of the wrong type.
            Misuse: the mode needs an embedder, or that needs a package.
            EmbedderFailed: the embedder raised, or gave no vectors.
            SearchFailed: the scope's index cannot be stored on this machine.
        """
        checked_scope(scope)
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise PayloadError("limit", f"{limit!r:.80} is not a number")
        found = checked_search(SearchOptions() if options is None else options)
        asked = _text(query, "query"), limit, found, mode, consistency
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
            InvalidId: an id is empty. NotFound: the scope has had no version `after`.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            SearchFailed: the scope's index cannot be stored on this machine.
        """
        checked_id(from_key, "from_key")
        found = await self._indexes.ask(
            scope, consistency, lambda index, now: index.edges(now, from_key)
        )
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
        self, scope: Scope, prefix: str = "", *, after: str | None = None
    ) -> AsyncGenerator[Revision]:
        """Yield what keys hold, in the order of their last writes, then each write and deletion.

        It waits out an outage, and never ends by itself: use `contextlib.aclosing`. It does not say
        that a key has expired: its `options.ttl` and `recorded_at` tell when.

        Args:
            scope: the scope.
            prefix: only keys that begin with this.
            after: a version: only what was recorded after it. None: all.

        Raises:
            InvalidId: an id is empty. NotFound: the scope has had no version `after`.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            SearchFailed: the scope's index cannot be stored on this machine.
        """
        checked = checked_scope(scope), _text(prefix, "prefix"), after
        return watch(self._keys, self._indexes, *checked)

    def clear_transient(self) -> None:
        """Drop every transient value, of all scopes. Raises nothing."""
        self._transient.clear()


def _fits(options: StoreOptions, lifetime: Lifetime, kind: object) -> bool:
    if options.lifetime not in (None, lifetime):
        return False
    return options.content_kind is None or options.content_kind == kind


def _text(value: str, field: str) -> str:
    if not isinstance(value, str):
        raise PayloadError(field, f"{value!r:.80} is not a string")
    return value
