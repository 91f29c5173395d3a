"""LangGraph's BaseStore on foldlog: items by namespace and key, on the log."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import merge
from itertools import compress, islice
from operator import attrgetter
from typing import Any, Final

import msgspec

from foldlog import codec
from foldlog.batches import in_batches
from foldlog.errors import PayloadError
from foldlog.integrations.access import AnyStore, OnStore, access_to, blocking
from foldlog.integrations.langgraph.installed import (
    BaseStore,
    Embeddings,
    GetOp,
    IndexConfig,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)
from foldlog.integrations.langgraph.items import ItemLog, by_namespace
from foldlog.integrations.langgraph.ranking import ByMeaning, ByWords, Found, Scores
from foldlog.integrations.langgraph.search import Labels, is_matched, matcher
from foldlog.integrations.langgraph.sweeping import Sweeper
from foldlog.opening import Store
from foldlog.store.core import core_of
from foldlog.views import Consistency
from foldlog_projections.langgraph.langgraphitems import Deleted, Entry, Items, Put, Touched
from foldlog_projections.langgraph.langgraphnamespaces import Added

_REFRESHED: Final = 0.05
"""The part of an item's time that passes before a read begins it anew: what is read all the time
is not written all the time."""

_LEAST_TTL: Final = 1e-3
"""Seconds."""

_SWEEP_MINUTES: Final = 5.0

_AT_ONCE: Final = 256
"""Namespaces that a listing looks into at a time."""


Touching = dict[tuple[Labels, str], None]
"""The items whose time a read begins anew."""


class FoldlogStore(OnStore, BaseStore):
    """LangGraph's long-term memory on foldlog. Lives as long as the store that it is given.

    The methods are LangGraph's: `get`, `search`, `put`, `delete`, `list_namespaces`, `batch`, and
    each with an `a` before it. A batch reads what there was before it, then writes all or nothing;
    of several puts of a key the last one wins. Values are JSON, and other data that the log can
    hold.

    With `index`, a search with a query ranks by meaning: items get their vectors when they are
    first searched. Without, it ranks by words, as `store.scoped` does. Items that a query cannot
    rank come last, with no score, as far as `limit` goes.

    Every method raises
        LogUnavailable, LogCorrupt: the log could not be read, or written.
        PayloadError: a value or a key cannot be held; or `ttl`, `limit` or `offset` is out of
            range. InvalidNamespaceError: a namespace is empty, or a label of it is empty, has a
            period, or is no string. Nothing was written.
        asyncio.InvalidStateError: a blocking method was called on the store's event loop.
    and searches with a query
        EmbedderFailed: the embeddings raised, or gave no vectors. ConfigurationError: numpy, which
            `index` needs, is missing.

    Args:
        store: from `foldlog.connect`, `foldlog.memory_store` or `foldlog.blocking.connect`.
        name: which of the LangGraph stores that the log holds.
        index: LangGraph's: `embed`, `dims`, `fields`.
        ttl: LangGraph's: `default_ttl` and `sweep_interval_minutes` in minutes, `refresh_on_read`,
            `omit_expired`.
        consistency: how fresh reads are: "eventual", "session" or "strong".
    """

    supports_ttl = True

    def __init__(
        self,
        store: AnyStore,
        *,
        name: str = "default",
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        consistency: Consistency = "session",
    ) -> None:
        super().__init__()
        self.ttl_config = ttl
        self.index_config: Any | None = None if index is None else index.copy()
        self._access = access_to(store)
        self._log = ItemLog(name, consistency)
        self._ranking = ByWords() if index is None else ByMeaning(index, self._log)
        self._sweeper = Sweeper(self._log.sweep)

    @property
    def embeddings(self) -> Embeddings | None:
        """The embeddings that make vectors; None without `index`."""
        return self._ranking.embeddings if isinstance(self._ranking, ByMeaning) else None

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run several operations, and return what each gives, in order.

        They read what there was before, then write all or nothing.
        """
        several = list(ops)
        return await self._access.acall(lambda store: self._batch(store, several))

    batch: Final = blocking(abatch)

    async def aerase(self, namespace_prefix: Sequence[str]) -> None:
        """Remove all items of the namespaces that begin so, with all their history.

        No read shows them any more, nor any earlier moment. Labels stay. What is put afterwards
        counts.

        Raises:
            LogUnavailable, AppendUnknown: some may remain; erasing again is safe.
        """
        prefix = tuple(namespace_prefix)
        await self._access.acall(lambda store: self._log.erase(store, prefix))

    erase: Final = blocking(aerase)

    # --- expiry -----------------------------------------------------------------------------------

    async def asweep_ttl(self) -> int:
        """Remove the items that have expired; return how many."""
        return await self._access.acall(self._log.sweep)

    sweep_ttl: Final = blocking(asweep_ttl)

    async def astart_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        """Remove expired items now and then, until the store closes. Starting again does nothing.

        Args:
            sweep_interval_minutes: minutes between sweeps. None: what `ttl` says, else 5.
        """
        seconds = self._interval(sweep_interval_minutes)
        await self._access.acall(lambda store: self._sweeper.start(store, seconds))

    start_ttl_sweeper: Final = blocking(astart_ttl_sweeper)

    async def astop_ttl_sweeper(self) -> None:
        """Stop removing expired items. Stopping again does nothing."""
        await self._access.acall(lambda store: self._sweeper.stop())

    stop_ttl_sweeper: Final = blocking(astop_ttl_sweeper)

    def _interval(self, minutes: float | None) -> float:
        configured = (self.ttl_config or {}).get("sweep_interval_minutes")
        return 60.0 * float(minutes or configured or _SWEEP_MINUTES)

    # --- operations, on the store's event loop ----------------------------------------------------

    async def _batch(self, store: Store, ops: Sequence[Op]) -> list[Result]:
        puts: dict[tuple[Labels, str], PutOp] = {}
        gets: dict[int, GetOp] = {}
        touched: Touching = {}
        results: list[Result] = [None] * len(ops)
        for number, op in enumerate(ops):
            match op:
                case PutOp():
                    _check_ttl(op.ttl)
                    puts[_checked(op.namespace), _checked_key(op.key)] = op
                case GetOp():
                    _checked_key(op.key)
                    gets[number] = op
                case SearchOp():
                    _checked_labels(op.namespace_prefix)
                    _check_page(op)
                    results[number] = await self._search(store, op, touched)
                case ListNamespacesOp():
                    for condition in op.match_conditions or ():
                        _checked_labels(condition.path)
                    _check_page(op)
                    results[number] = await self._list(store, op)
                case _:
                    raise ValueError(f"Unknown operation type: {type(op)}")
        if gets:
            items = await self._get(store, gets.values(), touched)
            for number, item in zip(gets, items, strict=True):
                results[number] = item
        records: list[tuple[Labels, msgspec.Struct]] = []
        if not core_of(store).reads_only:
            records += [(labels, Touched(key)) for labels, key in touched]
        records += [(labels, _record(op)) for (labels, _), op in puts.items()]
        if records:
            added = [
                Added(labels, op.ttl is not None)
                for (labels, _), op in puts.items()
                if op.value is not None
            ]
            await self._log.append(store, by_namespace(records), added)
        return results

    async def _get(
        self, store: Store, ops: Collection[GetOp], touched: Touching
    ) -> list[Item | None]:
        asked = by_namespace((_checked(op.namespace), op.key) for op in ops)

        def look(labels: Labels, items: Items) -> dict[str, Entry]:
            shown = self._shows(store)
            found = {key: items[key] for key in asked[labels] if key in items}
            return {key: each for key, each in found.items() if shown(each)}

        wanted = list(asked)
        found = dict(zip(wanted, await self._log.query(store, wanted, look), strict=True))
        results: list[Item | None] = []
        for op in ops:
            labels = tuple(op.namespace)
            entry = found[labels].get(op.key)
            if entry is not None and op.refresh_ttl and _is_aged(entry, core_of(store).now()):
                touched[labels, op.key] = None
            results.append(None if entry is None else _item(labels, op.key, entry))
        return results

    async def _search(self, store: Store, op: SearchOp, touched: Touching) -> list[SearchItem]:
        wanted = await self._log.namespaces(store, op.namespace_prefix)
        end, passes = op.offset + op.limit, matcher(op.filter)

        def look(labels: Labels, items: Items) -> list[Found]:
            """Those that pass, the newest first; all of them, or as many as are shown."""
            shown = self._shows(store)
            passing = (
                Found(labels, key, entry)
                for key, entry in reversed(items.items())
                if shown(entry) and (not op.filter or passes(codec.decode(entry.value)))
            )
            return list(passing if op.query else islice(passing, end))

        several = await self._log.query(store, wanted, look)
        items = list(merge(*several, key=attrgetter("entry.updated_at"), reverse=True))
        scores: Scores = [None] * len(items)
        if op.query:
            scores = await self._ranking.scores(store, items, op.query)
        # Stable: those with the same score, or none, stay in their order.
        order = sorted(range(len(items)), key=lambda number: _rank(scores[number]))
        page = order[op.offset : end]
        if op.refresh_ttl:
            now, found = core_of(store).now(), (items[number] for number in page)
            aged = (each for each in found if _is_aged(each.entry, now))
            touched.update(dict.fromkeys((each.labels, each.key) for each in aged))
        return [_search_item(items[number], scores[number]) for number in page]

    async def _list(self, store: Store, op: ListNamespacesOp) -> list[Labels]:
        conditions = op.match_conditions or ()
        matching = [
            labels
            for labels in await self._log.namespaces(store)
            if all(is_matched(labels, each.match_type, each.path) for each in conditions)
        ]
        end, found = op.offset + op.limit, dict[Labels, None]()

        def has_items(_: Labels, items: Items) -> bool:
            return any(map(self._shows(store), items.values()))

        for some in in_batches(matching, _AT_ONCE):
            are_there = await self._log.query(store, some, has_items)
            found |= dict.fromkeys(each[: op.max_depth] for each in compress(some, are_there))
            if len(found) >= end:
                break
        return list(found)[op.offset : end]

    def _shows(self, store: Store) -> Callable[[Entry], bool]:
        """What tells whether reads show an item: not if its time is over, where `ttl` says so.

        Of a past moment the time is known when something was read.
        """
        if not (self.ttl_config or {}).get("omit_expired"):
            return lambda entry: True
        now = core_of(store).now()
        return lambda entry: not entry.is_over(now)


def _checked(labels: Sequence[str]) -> Labels:
    """Return a namespace as it is.

    Raises:
        InvalidNamespaceError: it cannot have items.
    """
    if not labels:
        raise InvalidNamespaceError("a namespace has one label or more")
    return _checked_labels(labels)


def _checked_labels(labels: Sequence[str]) -> Labels:
    """Return a namespace, or a part of one, as it is.

    What LangGraph's own stores refuse, also of operations that are given to `batch`.

    Raises:
        InvalidNamespaceError: there is none of these labels.
    """
    for label in labels:
        if not isinstance(label, str) or not label or "." in label or "\0" in label:
            reason = "a label is a string that is not empty and has no period and no NUL byte"
            raise InvalidNamespaceError(f"{reason}, unlike {label!r:.80} in {labels!r:.80}")
    return tuple(labels)


def _checked_key(key: Any) -> str:
    """Return a key as it is.

    Raises:
        PayloadError: it is no text that can be written as UTF-8.
    """
    if not isinstance(key, str):
        raise PayloadError("key", f"a string is needed, not {type(key).__name__}")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise PayloadError("key", "it holds a lone surrogate") from None
    return key


def _check_ttl(ttl: Any) -> None:
    if ttl is None:
        return
    is_number = isinstance(ttl, int | float) and not isinstance(ttl, bool)
    if not is_number or not math.isfinite(ttl):
        raise PayloadError("ttl", f"a finite number of minutes is needed, not {ttl!r:.80}")


def _check_page(op: SearchOp | ListNamespacesOp) -> None:
    for name, number in (("limit", op.limit), ("offset", op.offset)):
        if not isinstance(number, int) or number < 0:
            raise PayloadError(name, f"a whole number from 0 is needed, not {number!r:.80}")


def _record(op: PutOp) -> Put | Deleted:
    if op.value is None:
        return Deleted(op.key)
    paths = None if op.index is None else tuple(op.index or ())
    ttl = 0.0 if op.ttl is None else max(60.0 * op.ttl, _LEAST_TTL)
    return Put(op.key, op.value, paths, ttl)


def _is_aged(entry: Entry, now: float) -> bool:
    """Whether a read begins an item's time anew."""
    return entry.ttl > 0 and now - entry.touched_at >= _REFRESHED * entry.ttl


def _rank(score: float | None) -> tuple[bool, float]:
    return score is None, -(score or 0.0)


def _item(labels: Labels, key: str, entry: Entry) -> Item:
    return Item(
        value=codec.decode(entry.value),
        key=key,
        namespace=labels,
        created_at=_time(entry.created_at),
        updated_at=_time(entry.updated_at),
    )


def _search_item(found: Found, score: float | None) -> SearchItem:
    return SearchItem(
        namespace=found.labels,
        key=found.key,
        value=found.value(),
        created_at=_time(found.entry.created_at),
        updated_at=_time(found.entry.updated_at),
        score=score,
    )


def _time(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)
