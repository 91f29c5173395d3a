"""What a page shows: a session or a trace, as the views that are its, merged in log order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

from foldlog.kind import Key, Kind
from foldlog.opening import Store
from foldlog.position import LogPosition, Reach
from foldlog.store.core import core_of
from foldlog.store.ownership import views_of
from foldlog.store.primitives import Item
from foldlog.ui.plain import CUT, record_of

PAGE: Final = 5_000
"""Records a page at most."""

Record = dict[str, Any]


class Run(NamedTuple):
    """A session or a trace, by its id."""

    kind: Literal["session", "trace"]
    id: str

    async def views(self, store: Store) -> list[Key[Any]]:
        """The views that hold its records: of a session also those of traces that it names.

        A trace that is under way has no trajectory yet, by which it would belong to the session.
        Errors as `Store.views`.
        """
        if self.kind == "trace":
            return _of_trace(store, self.id)
        found = await views_of(core_of(store), self.id)
        named = await self._named_traces(store, found)
        return list(dict.fromkeys([*found, *(k for t in named for k in _of_trace(store, t))]))

    async def _named_traces(self, store: Store, views: Iterable[Key[Any]]) -> list[str]:
        naming = [key for key in views if key.kind.owner == "session" and _names_traces(key.kind)]
        pages = await asyncio.gather(
            *(store.items(key, limit=PAGE, newest_first=True) for key in naming)
        )
        names = dict.fromkeys(trace_named(item) for page in pages for item in page)
        return [name for name in names if name is not None]


class Page(NamedTuple):
    """Records in log order, all that there are up to `position`. `more`: there are more behind."""

    records: list[Record]
    position: LogPosition
    more: bool


async def read_page(
    store: Store,
    views: Sequence[Key[Any]],
    after: LogPosition | None,
    *,
    until: LogPosition | None = None,
    limit: int = PAGE,
    cut: int | None = CUT,
    change: Callable[[Key[Any], Item], Item] | None = None,
) -> Page:
    """Return the records of many views behind a position, whole up to where the page ends.

    Args:
        until: nothing behind this position. None: up to now.
        cut: see `Plain`.
        change: returns what is shown of an item. None: the item.

    Errors as `Store.items`.
    """
    # Of what stands up to here, strong reads that begin later miss nothing.
    head = await store.position() if until is None else until
    behind = LogPosition(tuple(Reach(0) for _ in head.shards)) if after is None else after
    lists = await asyncio.gather(
        *(store.items(key, after=behind, limit=limit, consistency="strong") for key in views)
    )
    found = [
        (key, item if change is None else change(key, item))
        for key, items in zip(views, lists, strict=True)
        for item in items
        if item.position <= head
    ]
    found.sort(key=lambda each: place(each[1]))
    more = len(found) > limit or any(len(items) == limit for items in lists)
    found = found[:limit]
    records, end = placed(found, behind, cut)
    return Page(records, end if more and found else _later(end, head), more and bool(found))


def placed(
    found: Iterable[tuple[Key[Any], Item]], after: LogPosition, cut: int | None = CUT
) -> tuple[list[Record], LogPosition]:
    """Return records with their positions, which include what was before, and the last of these."""
    position, records = after, []
    for key, item in found:
        position = _later(position, item.position)
        # One shard needs no vector: a record that arrives late keeps its own place.
        own = item.position if len(position.shards) == 1 else position
        records.append(record_of(key, item, str(own), cut))
    return records, position


def place(item: Item) -> tuple[float, int, int, float]:
    """Where an item stands among those of other views; of other shards by the log's clock."""
    shards = item.position.shards
    number = next((n for n, reach in enumerate(shards) if reach.seq), 0)
    at = item.recorded_at if len(shards) > 1 else 0.0
    return at, number, *shards[number].place


def trace_named(item: Item) -> str | None:
    """The trace that a record names, if any."""
    found = getattr(item.record, "trace_id", None)
    return found if isinstance(found, str) and found else None


def _names_traces(kind: Kind[Any]) -> bool:
    return any("trace_id" in each.schema.__struct_fields__ for each in kind.records.values())


def _later(a: LogPosition, b: LogPosition) -> LogPosition:
    pairs = zip(a.shards, b.shards, strict=True)
    return LogPosition(tuple(x if x.place >= y.place else y for x, y in pairs))


def _of_trace(store: Store, trace_id: str) -> list[Key[Any]]:
    return [kind(trace_id) for kind in core_of(store).kinds_of("trace")]
